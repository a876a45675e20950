// SPDX-License-Identifier: MIT
/* template/lint_int.h - what the files of the linter share. */
#ifndef HONE_TEMPLATE_LINT_INT_H
#define HONE_TEMPLATE_LINT_INT_H

#include "template/chat_span.h"
#include "template/chat_vars.h"
#include "template/lint.h"

enum { LINT_NOW = 1772721000 }; /* the clock of the golden outcomes */
/* How a probe's conversation is changed before it is rendered. */
struct lint_twist {
    bool text_args;     /* arguments that are objects become JSON text */
    const char *kwargs; /* more variables, a JSON object; NULL: none */
};
/* Runs probe i as lint_probe does, on its conversation with the twist. */
int lint_probe_twisted(const struct jinja *t, int i, const struct lint_twist *w, char outcome[160],
                       struct lint_finding *f, struct err *e);
/* Renders a conversation, a scenario of chat_case_of as JSON text. Returns false when it does not
 * render, and why in *je. spans: the origins of the output's bytes, NULL when not wanted. */
bool lint_render(const struct jinja *t, const char *json, bool text_args, struct buf *out,
                 struct jinja_spans *spans, struct jinja_err *je);
/* Returns the special tokens that probes are rendered with, a JSON object. */
const char *lint_tokens(void);
/* Finds out what the template can do. */
void lint_caps_of(struct lint_caps *caps, const struct jinja *t);
/* Appends a JSON object with the template's own switches of thinking on; `effort`: that of the
 * reasoning's length, too, which some accept few values of. Returns false when it has none. */
bool lint_thinking_on(const struct jinja *t, bool effort, struct buf *out);
/* What the judge sees of each probe: its finding when it failed. */
struct lint_outcome {
    bool failed;
    struct lint_finding f;
};
/* Gives each failed probe its severity, by what the template can do and who would meet the
 * failure, and adds the findings to the report (lint_judge.c). */
int lint_judge(struct lint_report *r, const struct jinja *t, struct lint_outcome *o, struct err *e);

void lint_found(struct lint_report *r, const struct lint_finding *f); /* f is copied */
/* Adds the findings that the syntax tree tells (lint_tree.c). */
void lint_tree(struct lint_report *r, const struct jinja *t);
/* Sets line and col of *f to where the template first reads a variable; they stay when it does not.
 */
void lint_where_name(struct lint_finding *f, const struct jinja *t, struct jval name);

/* Each function of lint_where.c renders the case again and sets line and col of *f, or leaves them
 * as they are when the rendering does not tell. */
/* Sets them to the place of what wrote byte `at` of the output (the last byte when there are
 * fewer). */
void lint_where_byte(const struct jinja *t, const struct chat_case *k, size_t at,
                     struct lint_finding *f);
/* Sets them to the place of the expression that last held the text, for texts that are lost: where
 * the template had it, or the message around it, in its hands for the last time. */
void lint_where_held(const struct jinja *t, const struct chat_case *k, struct jval text,
                     struct lint_finding *f);

#endif
