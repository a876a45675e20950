// SPDX-License-Identifier: MIT
/* template/chat_span.h - rendered conversations with the origin of every input byte. */
#ifndef HONE_TEMPLATE_CHAT_SPAN_H
#define HONE_TEMPLATE_CHAT_SPAN_H

#include "template/chat_vars.h"

/* Renders as chat_case_render does; *spans maps bytes of *out to inputs. Origins are paths such as
 * "messages[1].tool_calls[0].function.arguments.city"; a member's name has the path of its object
 * with ".*" appended. Kinds: the role for content ("system", "developer", "user", "assistant",
 * "tool", else "message"), "role", "reasoning", "call" (names and ids), "arguments", "tools",
 * "documents", "variable". Special tokens (bos_token ...) count as the template's own. *spans is
 * empty on failure. */
int chat_case_spans(const struct jinja *t, const struct chat_case *k, struct buf *out,
                    struct jinja_spans *spans, struct jinja_err *je, struct err *e);

/* Returns the template's variables with an origin for each, except those that the program adds
 * (special tokens, add_generation_prompt). */
struct jval chat_name_vars(struct jctx *c, struct jval vars);
/* Returns v with every string, number and null in it marked with its path. For variables that
 * chat_name_vars does not cover. */
struct jval chat_named(struct jctx *c, struct jval v, struct jval path, const char *kind);
/* Returns the markers in the template's own part of the output, distinct and sorted: texts of the
 * form <...> or [...] without white space, at most 48 bytes ("<|im_start|>", "[INST]"). Free the *n
 * markers with chat_marks_free. */
char **chat_own_marks(const struct buf *out, const struct jinja_spans *spans, int *n);
void chat_marks_free(char **v, int n);
/* Input text that contains one of the template's own markers. */
struct chat_forged {
    size_t start, end; /* bytes of the output, all from inputs */
    int origin;        /* origin of the first byte */
};
/* Returns the places where input text contains one of the template's own markers, in ascending
 * order, and sets *n to their number. The caller frees the array with free(). */
struct chat_forged *chat_find_forged(const struct buf *out, const struct jinja_spans *spans,
                                     int *n);

#endif
