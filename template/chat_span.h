// SPDX-License-Identifier: MIT
/* template/chat_span.h - a conversation rendered, with the origin of every byte that came from it.
 */
#ifndef HONE_TEMPLATE_CHAT_SPAN_H
#define HONE_TEMPLATE_CHAT_SPAN_H

#include "template/chat_vars.h"

/* Like chat_case_render; *spans says which bytes of *out come from which input. Origins are paths
 * such as "messages[1].tool_calls[0].function.arguments.city" (of a name in an object: the
 * object's, with ".*"). Kinds: the role for content ("system", "developer", "user", "assistant",
 * "tool", else "message"), "role", "reasoning", "call" (names and ids), "arguments", "tools",
 * "documents", "variable". Special tokens (bos_token ...) count as the template's own. *spans is
 * empty on failure. */
int chat_case_spans(const struct jinja *t, const struct chat_case *k, struct buf *out,
                    struct jinja_spans *spans, struct jinja_err *je, struct err *e);

/* What a template sees, with all of it named but what the program adds (special tokens). */
struct jval chat_name_vars(struct jctx *c, struct jval vars);
/* v with every text, number and null below it marked by its path; for variables made by others. */
struct jval chat_named(struct jctx *c, struct jval v, struct jval path, const char *kind);
/* Markers: what stands in the template's own part of the output as <...> or [...] without white
 * space, at most 48 bytes ("<|im_start|>", "[INST]"). Distinct, sorted; free with chat_marks_free.
 */
char **chat_own_marks(const struct buf *out, const struct jinja_spans *spans, int *n);
void chat_marks_free(char **v, int n);
/* A text of the input that reads like a marker the template writes itself. */
struct chat_forged {
    size_t start, end; /* bytes of the output; all of them come from inputs */
    int origin;        /* of the first byte */
};
/* All of them, ascending; free with free(). */
struct chat_forged *chat_find_forged(const struct buf *out, const struct jinja_spans *spans,
                                     int *n);

#endif
