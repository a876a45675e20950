// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/ssm.c - short convolution, scans of Mamba 1 and 2, and Kimi delta attention.
 * As in delta.c, a task owns some channels or rows of one sequence's state and runs all of that
 * sequence's tokens in the pass. */
#include <math.h>

#include "base/fp.h"
#include "base/num.h"
#include "runtime/engine/exec.h"

enum { CHANNELS = 64, ROWS = 16 };

struct job {
    struct session *s;
    const struct gr_node *n;
    int64_t n_parts; /* tasks per sequence or per head */
    const float *w, *a, *dt, *skip;
};

/* Returns row t of register r. */
static const float *row_of(const struct session *s, gr_reg r, int64_t t) {
    return s->reg[r] + t * s->g->reg_width[r];
}

/* ---- short convolution: item = (sequence, some channels) ---- */

/* Computes SHORT_CONV for parts i0 to i1 - 1 of segments and channels; a pool_fn. */
static void short_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    const struct session *s = j->s;
    const struct gr_node *n = j->n;
    (void)worker;
    const int64_t n_ch = s->g->reg_width[n->dst], taps = s->g->weight[n->conv.weight].ne[0];
    for (int64_t i = i0; i < i1; i++) {
        const struct seg *g = &s->seg[i / j->n_parts];
        const int64_t c0 = i % j->n_parts * CHANNELS, c1 = min_i64(c0 + CHANNELS, n_ch);
        for (int64_t t = g->r0, to; t < g->r0 + g->n; t = to) {
            to = exec_until_fork(s, t, g->r0 + g->n);
            s->kern.short_conv(row_of(s, n->src[0], t), s->g->reg_width[n->src[0]], j->w,
                               seq_conv(g->seq, n->slot), s->reg[n->dst] + t * n_ch, n_ch, to - t,
                               c0, c1, n_ch, taps);
            struct seq *fork = exec_fork(s, to - 1);
            if (fork) exec_fork_tail(fork, g->seq, n->slot, taps - 1, n_ch, c0, c1);
        }
    }
}
/* Runs SHORT_CONV for the pass (models/ops.def): gated causal convolution. */
void exec_short_conv(struct session *s, const struct gr_node *n) {
    const int64_t n_ch = s->g->reg_width[n->dst];
    struct job j = {
        .s = s, .n = n, .n_parts = div_up(n_ch, CHANNELS), .w = exec_vec(s, n->conv.weight)};
    exec_par(s, s->n_segs * j.n_parts, 1, 8.0 * (double)s->n_tok * (double)n_ch, short_range, &j);
}

/* ---- Mamba 2 ---- */

/* Computes the step sizes and decays of Mamba-2's heads for tokens t0 to t1 - 1. */
static void steps_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const struct session *s = j->s;
    const int64_t n_heads = j->n->delta.n_v_heads;
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        const float *raw = row_of(s, j->n->src[1], t) + j->n->delta.offset;
        for (int64_t h = 0; h < n_heads; h++) {
            const float d = fp_softplusf(raw[h] + j->dt[h]);
            s->beta[t * n_heads + h] = d;
            s->decay[t * n_heads + h] = fp_expf(j->a[h] * d);
        }
    }
}

/* Runs the scan of Mamba 2 for items [i0, i1). An item is a group of rows of the state of one head
 * of one sequence. */
static void mamba2_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    const struct session *s = j->s;
    const struct gr_node *n = j->n;
    (void)worker;
    const int64_t heads = n->delta.n_v_heads, dim = n->delta.k_dim, dv = n->delta.v_dim;
    const int64_t ldu = s->g->reg_width[n->src[0]], ldo = s->g->reg_width[n->dst];
    for (int64_t i = i0; i < i1; i++) {
        const struct seg *g = &s->seg[i / (heads * j->n_parts)];
        const int64_t h = i / j->n_parts % heads, r0 = i % j->n_parts * ROWS;
        const int64_t r1 = min_i64(r0 + ROWS, dv);
        for (int64_t t = g->r0, to; t < g->r0 + g->n; t = to) {
            to = exec_until_fork(s, t, g->r0 + g->n);
            const float *u = row_of(s, n->src[0], t);
            const float *b = u + heads * dv + h / (heads / n->delta.n_k_heads) * dim;
            s->kern.mamba2_rows(seq_scan(g->seq, n->slot) + h * dv * dim, b,
                                b + n->delta.n_k_heads * dim, ldu, u + h * dv, ldu,
                                s->reg[n->dst] + t * ldo + h * dv, ldo, s->decay + t * heads + h,
                                s->beta + t * heads + h, heads, j->skip[h], to - t, dim, r0, r1);
            struct seq *fork = exec_fork(s, to - 1);
            if (fork) exec_fork_scan(fork, g->seq, n->slot, (h * dv + r0) * dim, (r1 - r0) * dim);
        }
    }
}
/* Runs MAMBA2 for the pass (models/ops.def): scan of Mamba 2. */
void exec_mamba2(struct session *s, const struct gr_node *n) {
    struct job j = {.s = s,
                    .n = n,
                    .n_parts = div_up(n->delta.v_dim, ROWS),
                    .a = exec_vec(s, n->delta.a),
                    .dt = exec_vec(s, n->delta.dt),
                    .skip = exec_vec(s, n->delta.skip)};
    exec_par(s, s->n_tok, 8, 20.0 * (double)s->n_tok * (double)n->delta.n_v_heads, steps_range, &j);
    const double work =
        4.0 * (double)s->n_tok * (double)(n->delta.n_v_heads * n->delta.v_dim * n->delta.k_dim);
    exec_par(s, s->n_segs * n->delta.n_v_heads * j.n_parts, 1, work, mamba2_range, &j);
}

/* ---- Mamba 1: item = (sequence, some channels) ---- */

/* Computes MAMBA1 for parts i0 to i1 - 1 of segments and channels; a pool_fn. */
static void mamba1_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    const struct session *s = j->s;
    const struct gr_node *n = j->n;
    (void)worker;
    const int64_t n_ch = n->delta.v_dim, dim = n->delta.k_dim;
    for (int64_t i = i0; i < i1; i++) {
        const struct seg *g = &s->seg[i / j->n_parts];
        const int64_t c0 = i % j->n_parts * ROWS, c1 = min_i64(c0 + ROWS, n_ch);
        for (int64_t t = g->r0, to; t < g->r0 + g->n; t = to) {
            to = exec_until_fork(s, t, g->r0 + g->n);
            const float *b = row_of(s, n->src[2], t);
            s->kern.mamba1_rows(seq_scan(g->seq, n->slot), j->a, j->skip, row_of(s, n->src[0], t),
                                row_of(s, n->src[1], t), s->reg[n->dst] + t * n_ch, n_ch, b,
                                b + dim, s->g->reg_width[n->src[2]], to - t, dim, c0, c1);
            struct seq *fork = exec_fork(s, to - 1);
            if (fork) exec_fork_scan(fork, g->seq, n->slot, c0 * dim, (c1 - c0) * dim);
        }
    }
}
/* Runs MAMBA1 for the pass (models/ops.def): scan of Mamba 1. */
void exec_mamba1(struct session *s, const struct gr_node *n) {
    struct job j = {.s = s,
                    .n = n,
                    .n_parts = div_up(n->delta.v_dim, ROWS),
                    .a = exec_vec(s, n->delta.a),
                    .skip = exec_vec(s, n->delta.skip)};
    const double work = 20.0 * (double)s->n_tok * (double)(n->delta.v_dim * n->delta.k_dim);
    exec_par(s, s->n_segs * j.n_parts, 1, work, mamba1_range, &j);
}

/* ---- Kimi delta attention ---- */

/* Normalizes queries and keys of tokens [t0, t1) and computes the decays in place. */
static void kda_ready_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const struct session *s = j->s;
    const struct gr_delta *d = &j->n->delta;
    const int64_t heads = d->n_v_heads, dim = d->k_dim;
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        float *u = s->reg[j->n->src[0]] + t * s->g->reg_width[j->n->src[0]];
        float *f = s->reg[j->n->src[2]] + t * s->g->reg_width[j->n->src[2]];
        const float *beta = row_of(s, j->n->src[1], t);
        for (int64_t h = 0; h < 2 * heads; h++)
            s->kern.l2_norm(u + h * dim, dim, d->eps, h < heads ? d->scale : 1.0f);
        for (int64_t h = 0; h < heads; h++) s->beta[t * heads + h] = fp_sigmoidf(beta[h]);
        for (int64_t i = 0; i < heads * dim; i++) {
            const float a = j->a[i / dim], x = f[i] + j->dt[i];
            f[i] = fp_expf(d->bound < 0 ? d->bound / (1 + fp_expf(-a * x)) : a * fp_softplusf(x));
        }
    }
}

/* Runs Kimi delta attention for items [i0, i1). An item is a group of rows of the state of one head
 * of one sequence. */
static void kda_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    const struct session *s = j->s;
    const struct gr_node *n = j->n;
    (void)worker;
    const int64_t heads = n->delta.n_v_heads, dim = n->delta.k_dim, dv = n->delta.v_dim;
    const int64_t ldu = s->g->reg_width[n->src[0]], ldo = s->g->reg_width[n->dst];
    for (int64_t i = i0; i < i1; i++) {
        const struct seg *g = &s->seg[i / (heads * j->n_parts)];
        const int64_t h = i / j->n_parts % heads, r0 = i % j->n_parts * ROWS;
        const int64_t r1 = min_i64(r0 + ROWS, dv);
        for (int64_t t = g->r0, to; t < g->r0 + g->n; t = to) {
            to = exec_until_fork(s, t, g->r0 + g->n);
            const float *q = row_of(s, n->src[0], t) + h * dim;
            s->kern.kda_rows(seq_scan(g->seq, n->slot) + h * dv * dim, q, q + heads * dim, ldu,
                             q - h * dim + 2 * heads * dim + h * dv, ldu,
                             s->reg[n->dst] + t * ldo + h * dv, ldo,
                             row_of(s, n->src[2], t) + h * dim, heads * dim,
                             s->beta + t * heads + h, heads, to - t, dim, r0, r1);
            struct seq *fork = exec_fork(s, to - 1);
            if (fork) exec_fork_scan(fork, g->seq, n->slot, (h * dv + r0) * dim, (r1 - r0) * dim);
        }
    }
}
/* Runs KDA for the pass (models/ops.def): Kimi delta attention. */
void exec_kda(struct session *s, const struct gr_node *n) {
    struct job j = {.s = s,
                    .n = n,
                    .n_parts = div_up(n->delta.v_dim, ROWS),
                    .a = exec_vec(s, n->delta.a),
                    .dt = exec_vec(s, n->delta.dt)};
    const double wide = (double)s->n_tok * (double)(n->delta.n_v_heads * n->delta.k_dim);
    exec_par(s, s->n_tok, 8, 30.0 * wide, kda_ready_range, &j);
    exec_acts_stale(s, s->reg[n->src[0]]);
    exec_acts_stale(s, s->reg[n->src[2]]);
    exec_par(s, s->n_segs * n->delta.n_v_heads * j.n_parts, 1, 6 * wide * (double)n->delta.v_dim,
             kda_range, &j);
}
