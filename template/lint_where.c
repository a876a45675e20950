// SPDX-License-Identifier: MIT
/* template/lint_where.c - source locations of findings. */
#include "template/lint_int.h"

#include "template/jinja_trace.h"

/* Renders the case with a trace. Returns whether that succeeded. */
static bool traced(const struct jinja *t, const struct chat_case *k, struct buf *out,
                   struct jtrace *trace) {
    struct chat_case copy = *k;
    struct jinja_err je;
    struct err ignored;
    return jinja_render_trace(t, chat_case_vars, &copy, k->now, out, trace, &je, &ignored) == 0;
}

void lint_where_byte(const struct jinja *t, const struct chat_case *k, size_t at,
                     struct lint_finding *f) {
    struct jtrace trace = {0};
    struct buf out = {0};
    uint32_t pos;
    if (traced(t, k, &out, &trace) && out.len) {
        if (at >= out.len) at = out.len - 1;
        if (jtrace_byte(&trace, t, &out, at, &pos))
            jx_where(t->src, t->src_len, pos, &f->line, &f->col);
    }
    jtrace_release(&trace);
    buf_release(&out);
}

void lint_where_held(const struct jinja *t, const struct chat_case *k, struct jval text,
                     struct lint_finding *f) {
    struct jtrace trace = {.want = text};
    struct buf out = {0};
    if (traced(t, k, &out, &trace) && trace.around)
        jx_where(t->src, t->src_len, trace.held, &f->line, &f->col);
    jtrace_release(&trace);
    buf_release(&out);
}
