// SPDX-License-Identifier: MIT
/* template/jinja_trace.h - traces of renderings: the statement that wrote each byte, and the
 * expression that last held a text. */
#ifndef HONE_TEMPLATE_JINJA_TRACE_H
#define HONE_TEMPLATE_JINJA_TRACE_H

#include "template/jinja_int.h"

struct jtrace_stmt {
    uint32_t pos, len; /* range in the template's source; len 0: not plain text */
};
struct jtrace {
    struct jval want; /* input: text to look for; length 0: none */
    /* Size of the smallest value that contained it: 1 for a string, more for containers; 0:
     * none. */
    unsigned around;
    uint32_t held;         /* position of the last expression with the smallest such value */
    uint16_t *id;          /* statement number by source position */
    uint16_t *out;         /* statement number by output byte; 0: unknown */
    struct jtrace_stmt *v; /* v[i]: statement i + 1 */
    int n, cap;
    size_t n_out;
};
/* Renders as jinja_render_fn does and fills *trace, which must be zero except for `want`. Call
 * jtrace_release in any case. */
int jinja_render_trace(const struct jinja *t, jinja_vars_fn fn, void *ctx, int64_t now_unix,
                       struct buf *out, struct jtrace *trace, struct jinja_err *je, struct err *e);
/* Finds the source position that produced byte `at` of the output: exact for plain text, otherwise
 * the statement (for {{ }}: its expression). Returns false if unknown. */
bool jtrace_byte(const struct jtrace *t, const struct jinja *tmpl, const struct buf *out, size_t at,
                 uint32_t *pos);
void jtrace_release(struct jtrace *t);

/* Hooks for the evaluator, called only if c->span->trace is set. */
void jtrace_at(struct jctx *c, const struct jnode *n);                 /* n starts to run */
void jtrace_saw(struct jctx *c, const struct jnode *n, struct jval v); /* n evaluated to v */
/* Keeps the origins of the n bytes of output. */
void jtrace_result(struct jtrace *t, const struct jspan *s, size_t n);

#endif
