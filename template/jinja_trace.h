// SPDX-License-Identifier: MIT
/* template/jinja_trace.h - which statement of the template wrote each byte of a rendering, and
 * which expression last held a text. */
#ifndef HONE_TEMPLATE_JINJA_TRACE_H
#define HONE_TEMPLATE_JINJA_TRACE_H

#include "template/jinja_int.h"

struct jtrace_stmt {
    uint32_t pos, len; /* in the template's text; len 0: not a text */
};
struct jtrace {
    struct jval want;      /* given: a text to look for; length 0: none */
    unsigned around;       /* 0: no value held it; 1: a string did; more: a list or object did */
    uint32_t held;         /* position of the expression that last gave the smallest such value */
    uint16_t *id;          /* number of the statement at a position of the text */
    uint16_t *out;         /* ... of the statement that made a byte of the output; 0 unknown */
    struct jtrace_stmt *v; /* statement number i + 1 */
    int n, cap;
    size_t n_out;
};
/* Renders as jinja_render_fn does, and fills *trace, which is zero but for `want`; the caller calls
 * jtrace_release in any case. */
int jinja_render_trace(const struct jinja *t, jinja_vars_fn fn, void *ctx, int64_t now_unix,
                       struct buf *out, struct jtrace *trace, struct jinja_err *je, struct err *e);
/* Finds the place in the template's text that made byte `at` of the output: exact for plain text,
 * else the statement (of {{ }}: its expression). Returns false when it is not known. */
bool jtrace_byte(const struct jtrace *t, const struct jinja *tmpl, const struct buf *out, size_t at,
                 uint32_t *pos);
void jtrace_release(struct jtrace *t);

/* For the evaluator, only with c->span->trace. */
void jtrace_at(struct jctx *c, const struct jnode *n);                 /* n runs from here on */
void jtrace_saw(struct jctx *c, const struct jnode *n, struct jval v); /* n gave v */
void jtrace_result(struct jtrace *t, const struct jspan *s, size_t n);

#endif
