// SPDX-License-Identifier: MIT
/* template/lint_int.h - internals shared by the files of the linter. */
#ifndef HONE_TEMPLATE_LINT_INT_H
#define HONE_TEMPLATE_LINT_INT_H

#include "template/chat_span.h"
#include "template/chat_vars.h"
#include "template/lint.h"

enum { LINT_NOW = 1772721000 }; /* clock of the golden outcomes */
/* Changes to a probe's conversation before it is rendered. */
struct lint_twist {
    bool text_args;     /* turn object arguments into JSON text */
    const char *kwargs; /* JSON object of extra variables; NULL: none */
};
/* Runs probe i as lint_probe does, with its conversation changed by w. */
int lint_probe_twisted(const struct jinja *t, int i, const struct lint_twist *w, char outcome[160],
                       struct lint_finding *f, struct err *e);
/* Renders a conversation given as the JSON text of a scenario (chat_case_of). Returns false and
 * fills *je on failure. spans: origins of the output's bytes; may be NULL. */
bool lint_render(const struct jinja *t, const char *json, bool text_args, struct buf *out,
                 struct jinja_spans *spans, struct jinja_err *je);
/* Returns the special tokens for probes as the text of a JSON object. */
const char *lint_tokens(void);
/* Returns whether the text of some message reaches the prompt. */
bool lint_shows_messages(const struct jinja *t);
/* Returns whether the template fails with every conversation; *je is the error of a plain question.
 */
bool lint_always_fails(const struct jinja *t, struct jinja_err *je);
/* Determines by rendering what the template supports. */
void lint_caps_of(struct lint_caps *caps, const struct jinja *t);
/* Appends a JSON object that turns on the template's thinking switches; with `effort` also the
 * reasoning effort, for which some templates accept few values. Returns false if it has no switch.
 */
bool lint_thinking_on(const struct jinja *t, bool effort, struct buf *out);
/* Outcome of one probe, for the judge; holds a finding if it failed. */
struct lint_outcome {
    bool failed;
    struct lint_finding f;
};
/* Assigns a severity to each failed probe, from the template's capabilities and the clients
 * affected, and adds the findings to the report (lint_judge.c). */
int lint_judge(struct lint_report *r, const struct jinja *t, struct lint_outcome *o, struct err *e);

void lint_found(struct lint_report *r, const struct lint_finding *f); /* f is copied */
/* Adds the findings of the rules on the syntax tree (lint_tree.c). */
void lint_tree(struct lint_report *r, const struct jinja *t);
/* Sets line and col of *f to the first read of a variable; unchanged if the template never reads
 * it. */
void lint_where_name(struct lint_finding *f, const struct jinja *t, struct jval name);

/* The functions of lint_where.c render the case again and set line and col of *f; both stay
 * unchanged if the place cannot be determined. */
/* Locates the code that wrote byte `at` of the output, or its last byte if the output is shorter.
 */
void lint_where_byte(const struct jinja *t, const struct chat_case *k, size_t at,
                     struct lint_finding *f);
/* Locates the last expression that contained `text`, which is missing from the output; if there was
 * no such expression, the last one that contained the message around it. */
void lint_where_held(const struct jinja *t, const struct chat_case *k, struct jval text,
                     struct lint_finding *f);

#endif
