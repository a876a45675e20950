// SPDX-License-Identifier: MIT
/* template/chat_span.h - a conversation rendered, with the origin of every byte that came from it.
 */
#ifndef HONE_TEMPLATE_CHAT_SPAN_H
#define HONE_TEMPLATE_CHAT_SPAN_H

#include "template/chat_vars.h"

/* Renders as chat_case_render does; *spans says which bytes of *out come from which input. Origins
 * are paths such as "messages[1].tool_calls[0].function.arguments.city" (of a name in an object:
 * the object's, with ".*"). Kinds: the role for content ("system", "developer", "user",
 * "assistant", "tool", else "message"), "role", "reasoning", "call" (names and ids), "arguments",
 * "tools", "documents", "variable". Special tokens (bos_token ...) count as the template's own.
 * *spans is empty on failure. */
int chat_case_spans(const struct jinja *t, const struct chat_case *k, struct buf *out,
                    struct jinja_spans *spans, struct jinja_err *je, struct err *e);

/* Returns the variables that a template sees, with all of them named but what the program adds
 * (special tokens, add_generation_prompt). */
struct jval chat_name_vars(struct jctx *c, struct jval vars);
/* Returns v with every text, number and null below it marked by its path; for variables made by
 * others. */
struct jval chat_named(struct jctx *c, struct jval v, struct jval path, const char *kind);
/* Returns the markers of the template's own part of the output, distinct and sorted: what stands
 * there as <...> or [...] without white space, at most 48 bytes ("<|im_start|>", "[INST]"). The
 * caller frees the *n of them with chat_marks_free. */
char **chat_own_marks(const struct buf *out, const struct jinja_spans *spans, int *n);
void chat_marks_free(char **v, int n);
/* A text of the input that reads like a marker the template writes itself. */
struct chat_forged {
    size_t start, end; /* bytes of the output; all of them come from inputs */
    int origin;        /* of the first byte */
};
/* Returns all texts of the input that read like a marker of the template, ascending, *n of them;
 * the caller frees the array with free(). */
struct chat_forged *chat_find_forged(const struct buf *out, const struct jinja_spans *spans,
                                     int *n);

#endif
