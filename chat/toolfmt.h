// SPDX-License-Identifier: MIT
/* chat/toolfmt.h - tool calls in model output: one row per syntax, one parser for all.
 *
 * Text is fed in pieces of any size; the result does not depend on how it was cut. Content that is
 * certain (no piece of a marker) can be shown while text still comes. */
#ifndef HONE_CHAT_TOOLFMT_H
#define HONE_CHAT_TOOLFMT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct json;
struct toolfmt;   /* a syntax */
struct toolparse; /* a parse under way */

int toolfmt_count(void);
const struct toolfmt *toolfmt_at(int i);
const char *toolfmt_name(const struct toolfmt *f);
const struct toolfmt *toolfmt_find(const char *name); /* NULL: no such format */
/* Returns the syntax of calls that the text of a template asks for; NULL when none is recognised.
 */
const struct toolfmt *toolfmt_detect(const char *tmpl, size_t len);
/* Returns what stands for the syntax of templates of no known syntax: reasoning between <think> and
 * </think>, and no calls. */
const struct toolfmt *toolfmt_plain(void);

enum tool_think {
    TOOL_THINK_UNKNOWN, /* reasoning if a closing tag comes */
    TOOL_THINK_OPEN,    /* the prompt opened it */
    TOOL_THINK_NONE     /* no reasoning but what begins with an opening tag */
};
/* Returns what the end of a prompt says: OPEN behind an opening tag, NONE behind a closing one,
 * else UNKNOWN. */
enum tool_think toolfmt_think_of(const struct toolfmt *f, const char *prompt);
/* Returns the tag that closes reasoning if `closing`, else the one that opens it. */
const char *toolfmt_think_tag(const struct toolfmt *f, bool closing);
/* Returns the marker of calls that a prompt ends with, so that the answer begins after it, or NULL.
 * f may be NULL; the marker lives as long as f. */
const char *toolfmt_opened(const struct toolfmt *f, const char *prompt);
/* Makes a parser of syntax f, which the caller frees with toolparse_free. tools is the text of the
 * JSON list that the template is given, `len` bytes: it types the parameters of formats with raw
 * values. NULL: no tools. */
int toolparse_new(struct toolparse **out, const struct toolfmt *f, const char *tools, size_t len,
                  enum tool_think think, struct err *e);
/* Lets answers be calls that are nothing but JSON, {"name": N, "arguments": {..}}, bare or in a
 * fence, where N was declared and its schema is satisfied. Call it before text is fed. */
void toolparse_allow_loose(struct toolparse *p);
/* Treats the markers of calls as plain text, because no tools were offered. Call it before text is
 * fed. */
void toolparse_no_calls(struct toolparse *p);
/* Says that the prompt ends with this marker, one that toolfmt_opened() gave. Call it before text
 * is fed. */
void toolparse_opened(struct toolparse *p, const char *marker);
/* Returns the number of calls that were written so; after toolparse_finish. */
int toolparse_loose(const struct toolparse *p);
void toolparse_free(struct toolparse *p);
void toolparse_feed(struct toolparse *p, const char *s, size_t n);
/* Returns the content that is certain so far, *len bytes that p owns; a later call returns the same
 * bytes and more. */
const char *toolparse_content(struct toolparse *p, size_t *len);
/* Returns the reasoning that is certain so far, *len bytes that p owns, as far as a tag or the
 * prompt says that it is some. */
const char *toolparse_reasoning(struct toolparse *p, size_t *len);
/* Returns what lies behind the content that toolparse_content has shown, *len bytes that p owns:
 * the rest of the input, with calls as they were written. Call it after toolparse_finish. */
const char *toolparse_rest(const struct toolparse *p, size_t *len);
/* Tells, after toolparse_finish, whether something begins like a call and is none. */
bool toolparse_broken(const struct toolparse *p);
/* Reads the next call as far as it is certain: its name, and the JSON text of its arguments, of
 * which the first *n_sure bytes stay what they are. *done: it is complete, and the next time gives
 * the one behind it. False: nothing new, or nothing is certain before the end. */
bool toolparse_part(struct toolparse *p, struct buf *name, struct buf *args, size_t *n_sure,
                    bool *done);
/* Says that no more text comes, so that the next toolparse_part reads a call again that has grown
 * by little. */
void toolparse_no_more(struct toolparse *p);
/* Finishes the text, once, and returns {"content", "reasoning", "tool_calls": [{"name",
 * "arguments"}], "problems": [..]}, which p owns; with "loose", their number, where calls were
 * written loosely. */
const struct json *toolparse_finish(struct toolparse *p);

#endif
