// SPDX-License-Identifier: MIT
/* chat/toolfmt.h - parser of tool calls in model output. A table describes the syntaxes, one per
 * row; a single parser handles them all.
 *
 * Text is fed in pieces of any size; the result does not depend on where it was split. Content that
 * is certain, because it cannot be part of a marker, can be shown while text still arrives. */
#ifndef HONE_CHAT_TOOLFMT_H
#define HONE_CHAT_TOOLFMT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct json;
struct toolfmt;   /* a syntax */
struct toolparse; /* a parse in progress */

int toolfmt_count(void);
/* Returns format i, from 0; i must be below toolfmt_count(). */
const struct toolfmt *toolfmt_at(int i);
const char *toolfmt_name(const struct toolfmt *f);
/* Writes the names of all formats, separated by ", ". */
void toolfmt_list(char *out, size_t cap);
const struct toolfmt *toolfmt_find(const char *name); /* NULL: no such format */
/* Returns the call syntax of a template, or NULL if it is not recognized. */
const struct toolfmt *toolfmt_detect(const char *tmpl, size_t len);
/* Appends the unknown tag that a template writes before its calls, if hone reads them as bare JSON
 * (f) and there is one. */
void toolfmt_stray_tag(const struct toolfmt *f, const char *tmpl, size_t len, struct buf *out);
/* Returns whether the syntax writes calls as "functions.NAME:NUMBER", which its templates take from
 * the calls' ids. */
bool toolfmt_numbers(const struct toolfmt *f);
/* Returns the syntax for templates whose own is unknown: reasoning between <think> and </think>,
 * and no calls. */
const struct toolfmt *toolfmt_plain(void);

enum tool_think {
    TOOL_THINK_UNKNOWN, /* reasoning, if a closing tag comes */
    TOOL_THINK_OPEN,    /* the prompt has opened reasoning */
    TOOL_THINK_NONE     /* reasoning only after an opening tag */
};
/* Returns the state at the end of a prompt: OPEN after an opening tag, NONE after a closing one,
 * else UNKNOWN. */
enum tool_think toolfmt_think_of(const struct toolfmt *f, const char *prompt);
/* Returns the tag that closes reasoning or, if `closing` is false, the one that opens it. */
const char *toolfmt_think_tag(const struct toolfmt *f, bool closing);
/* Returns the call marker at the end of a prompt, after which the answer begins, or NULL. f may be
 * NULL; the marker lives as long as f. */
const char *toolfmt_opened(const struct toolfmt *f, const char *prompt);
/* Creates a parser of syntax f; free it with toolparse_free(). tools: the list given to the
 * template, as JSON text of `len` bytes; its schemas give raw values their types. NULL: no
 * tools. */
int toolparse_new(struct toolparse **out, const struct toolfmt *f, const char *tools, size_t len,
                  enum tool_think think, struct err *e);
/* Accepts answers that consist only of JSON calls, {"name": N, "arguments": {..}}, bare or in a
 * fence, if tool N is declared and the arguments match its schema. Call before feeding text. */
void toolparse_allow_loose(struct toolparse *p);
/* Of the texts that end turns in one family or another, treats only those as such for which is_end
 * returns true; the others are content. Call before feeding text. */
typedef bool toolparse_is_end(void *ud, const char *text);
void toolparse_ends(struct toolparse *p, toolparse_is_end *is_end, void *ud);
/* Treats call markers as plain text, because no tools were offered. Call before feeding text. */
void toolparse_no_calls(struct toolparse *p);
/* Sets the marker at the end of the prompt, as returned by toolfmt_opened(); NULL: none. It is not
 * copied. Call before feeding text. */
void toolparse_opened(struct toolparse *p, const char *marker);
/* Keeps white space at the start of the answer, which continues a text. Call before feeding
 * text. */
void toolparse_continues(struct toolparse *p);
/* Keeps white space around the answer, if it has no calls, because a grammar demands the text
 * exactly. Call before feeding text. */
void toolparse_exact(struct toolparse *p);
/* Returns the number of loose (bare JSON) calls. Call after toolparse_finish(). */
int toolparse_loose(const struct toolparse *p);
void toolparse_free(struct toolparse *p);
/* Adds n bytes of the model's answer, which may end inside a character. */
void toolparse_feed(struct toolparse *p, const char *s, size_t n);
/* Returns the content that is certain so far, *len bytes owned by p; later calls only extend it. */
const char *toolparse_content(struct toolparse *p, size_t *len);
/* Returns the reasoning that is certain so far, *len bytes owned by p: text after an opening tag,
 * in the answer or at the end of the prompt. */
const char *toolparse_reasoning(struct toolparse *p, size_t *len);
/* Returns the input that follows the content returned by toolparse_content(), *len bytes owned by
 * p, with calls as the model wrote them. Call after toolparse_finish(). */
const char *toolparse_rest(const struct toolparse *p, size_t *len);
/* Returns whether something in the text begins like a call but is not one. Call after
 * toolparse_finish(). */
bool toolparse_broken(const struct toolparse *p);
/* Returns the next tool call as far as it is known: its name and the JSON text of its arguments, of
 * which the first *n_sure bytes will not change. *done: the call is complete, and the next
 * invocation returns the one after it. False: nothing new, or nothing is certain before the end. */
bool toolparse_part(struct toolparse *p, struct buf *name, struct buf *args, size_t *n_sure,
                    bool *done);
/* Declares that a limit cuts the text off: a call of which only a closing tag that may be part of a
 * value has arrived is not complete, and white space at the end is content. Call before
 * toolparse_no_more(). */
void toolparse_limited(struct toolparse *p);
/* Declares the end of the text, so that the next toolparse_part() parses the current call again
 * even if it grew only a little. */
void toolparse_no_more(struct toolparse *p);
/* Finishes the parse, once, and returns {"content", "reasoning", "tool_calls": [{"name",
 * "arguments"}], "problems": [..]}, owned by p; plus "loose", the number of loose calls, if there
 * are any. */
const struct json *toolparse_finish(struct toolparse *p);

#endif
