// SPDX-License-Identifier: MIT
/* chat/toolfmt.h - tool calls in model output: one row per syntax, one parser for all.
 *
 * Text is fed in pieces of any size; the result does not depend on how it was cut. Content that is
 * certain (no piece of a marker) can be shown while text still comes. */
#ifndef HONE_CHAT_TOOLFMT_H
#define HONE_CHAT_TOOLFMT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/buf.h"
#include "core/err.h"

struct json;
struct toolfmt;   /* a syntax */
struct toolparse; /* a parse under way */

int toolfmt_count(void);
const struct toolfmt *toolfmt_at(int i);
const char *toolfmt_name(const struct toolfmt *f);
const struct toolfmt *toolfmt_find(const char *name); /* NULL: no such format */
/* The syntax that a template's text asks for; NULL when none is recognised. */
const struct toolfmt *toolfmt_detect(const char *tmpl, size_t len);
/* For templates of no known syntax: reasoning between <think> and </think>, no calls. */
const struct toolfmt *toolfmt_plain(void);

enum tool_think {
    TOOL_THINK_UNKNOWN, /* reasoning if a closing tag comes */
    TOOL_THINK_OPEN,    /* the prompt opened it */
    TOOL_THINK_NONE     /* no reasoning but what begins with an opening tag */
};
/* What the end of a prompt says: OPEN behind an opening tag, NONE behind a closing one. */
enum tool_think toolfmt_think_of(const struct toolfmt *f, const char *prompt);
/* The tag that opens, or closes, reasoning. */
const char *toolfmt_think_tag(const struct toolfmt *f, bool closing);
/* tools: JSON list as given to the template, or NULL. It types parameters of formats with raw
 * values. */
int toolparse_new(struct toolparse **out, const struct toolfmt *f, const char *tools, size_t len,
                  enum tool_think think, struct err *e);
void toolparse_free(struct toolparse *p);
void toolparse_feed(struct toolparse *p, const char *s, size_t n);
/* Content that is certain so far; a later call returns the same bytes and more. */
const char *toolparse_content(struct toolparse *p, size_t *len);
/* The same for reasoning, as far as a tag or the prompt says that it is some. */
const char *toolparse_reasoning(struct toolparse *p, size_t *len);
/* Behind the content that toolparse_content has shown, after toolparse_finish: the rest of the
 * input, calls as they were written. */
const char *toolparse_rest(const struct toolparse *p, size_t *len);
/* After toolparse_finish: does something begin like a call and is none? */
bool toolparse_broken(const struct toolparse *p);
/* Reads the next call as far as it is certain: its name, and the JSON text of its arguments, of
 * which the first *n_sure bytes stay what they are. *done: it is complete, and the next time gives
 * the one behind it. False: nothing new, or nothing is certain before the end. */
bool toolparse_part(struct toolparse *p, struct buf *name, struct buf *args, size_t *n_sure,
                    bool *done);
/* Ends the text, once, and returns {"content", "reasoning", "tool_calls": [{"name", "arguments"}],
 * "problems": [..]}, which p owns. */
const struct json *toolparse_finish(struct toolparse *p);

#endif
