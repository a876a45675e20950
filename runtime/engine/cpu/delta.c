// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/delta.c - recurrent layers with a short convolution and the gated delta rule.
 *
 * Given k, q, beta and decay, the rows of a head's state are independent. A task owns a few rows of
 * one sequence's state and runs all of that sequence's tokens in the pass, so that the state is
 * read and written once per pass rather than once per token. */
#include <math.h>

#include "base/fp.h"
#include "base/num.h"
#include "runtime/engine/exec.h"

enum { CONV_CHANNELS = 64, DELTA_ROWS = 16 };

struct conv_job {
    struct session *s;
    const struct gr_node *n;
    const float *w, *bias;
    int64_t n_ch, k;
};
/* Convolves items [i0, i1). An item is a range of channels of one sequence. */
static void conv_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct conv_job *j = ctx;
    (void)worker;
    const int64_t n_parts = div_up(j->n_ch, CONV_CHANNELS);
    for (int64_t i = i0; i < i1; i++) {
        const struct seg *g = &j->s->seg[i / n_parts];
        const int64_t c0 = i % n_parts * CONV_CHANNELS, c1 = min_i64(c0 + CONV_CHANNELS, j->n_ch);
        for (int64_t r = g->r0, to; r < g->r0 + g->n; r = to) {
            to = exec_until_fork(j->s, r, g->r0 + g->n);
            j->s->kern.conv_silu(j->s->reg[j->n->dst] + r * j->n_ch, j->n_ch, j->w, j->bias,
                                 seq_conv(g->seq, j->n->slot), to - r, c0, c1, j->n_ch, j->k);
            struct seq *fork = exec_fork(j->s, to - 1);
            if (fork) exec_fork_tail(fork, g->seq, j->n->slot, j->k - 1, j->n_ch, c0, c1);
        }
    }
}
/* Runs CONV_SILU for the pass (models/ops.def): causal convolution, then SiLU. */
void exec_conv_silu(struct session *s, const struct gr_node *n) {
    struct conv_job j = {s,
                         n,
                         exec_vec(s, n->conv.weight),
                         n->conv.bias == GR_NONE ? NULL : exec_vec(s, n->conv.bias),
                         s->g->reg_width[n->dst],
                         model_weight(s->m, n->conv.weight)->ne[0]};
    exec_par(s, s->n_segs * div_up(j.n_ch, CONV_CHANNELS), 1,
             8.0 * (double)s->n_tok * (double)j.n_ch, conv_range, &j);
}

struct delta_job {
    struct session *s;
    const struct gr_node *n;
    const float *a, *dt; /* per v head: ssm_a, and the bias of dt */
    /* [n_tok][ld] heads of q, k and v next to each other; q and k are normalized in place. */
    float *qkv;
    int64_t ld, row_groups;
};

/* Normalizes q and k and computes beta and decay of tokens t0 to t1 - 1; a pool_fn. */
static void prepare_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct delta_job *j = ctx;
    (void)worker;
    const struct session *s = j->s;
    const struct gr_node *n = j->n;
    int64_t hv = n->delta.n_v_heads, hk = n->delta.n_k_heads, dk = n->delta.k_dim;
    for (int64_t t = t0; t < t1; t++) {
        float *row = j->qkv + t * j->ld;
        for (int64_t h = 0; h < 2 * hk; h++)
            s->kern.l2_norm(row + h * dk, dk, n->delta.eps, h < hk ? n->delta.scale : 1.0f);
        const float *b = s->reg[n->src[1]] + t * s->g->reg_width[n->src[1]];
        const float *al =
            n->delta.grouped ? b + hv / hk : s->reg[n->src[2]] + t * s->g->reg_width[n->src[2]];
        for (int64_t h = 0; h < hv; h++) {
            const int64_t at = n->delta.grouped ? h + h / (hv / hk) * (hv / hk) : h;
            s->beta[t * hv + h] = fp_sigmoidf(b[at]);
            s->decay[t * hv + h] = fp_expf(j->a[h] * fp_softplusf(al[at] + j->dt[h]));
        }
    }
}

/* Applies the delta rule to items [i0, i1). An item is a group of rows of the state of one v head
 * of one sequence. */
static void delta_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct delta_job *j = ctx;
    (void)worker;
    const struct session *s = j->s;
    const struct gr_node *n = j->n;
    const int64_t hv = n->delta.n_v_heads, hk = n->delta.n_k_heads, dk = n->delta.k_dim,
                  dv = n->delta.v_dim;
    const int64_t ldo = s->g->reg_width[n->dst];
    for (int64_t i = i0; i < i1; i++) {
        const struct seg *g = &s->seg[i / (hv * j->row_groups)];
        const int64_t h = i / j->row_groups % hv, r0 = i % j->row_groups * DELTA_ROWS;
        const int64_t r1 = min_i64(r0 + DELTA_ROWS, dv), end = g->r0 + g->n;
        const int64_t kh = n->delta.grouped ? h / (hv / hk) : h % hk;
        for (int64_t t = g->r0, to; t < end; t = to) {
            to = exec_until_fork(s, t, end);
            const float *qkv = j->qkv + t * j->ld;
            s->kern.delta_rows(seq_scan(g->seq, n->slot) + h * dv * dk, qkv + kh * dk,
                               qkv + (hk + kh) * dk, j->ld, qkv + 2 * hk * dk + h * dv, j->ld,
                               s->reg[n->dst] + t * ldo + h * dv, ldo, s->decay + t * hv + h,
                               s->beta + t * hv + h, hv, to - t, dk, r0, r1);
            struct seq *fork = exec_fork(s, to - 1);
            if (fork) exec_fork_scan(fork, g->seq, n->slot, (h * dv + r0) * dk, (r1 - r0) * dk);
        }
    }
}

/* Runs DELTA for the pass (models/ops.def): gated delta net. */
void exec_delta(struct session *s, const struct gr_node *n) {
    struct delta_job j = {s,
                          n,
                          exec_vec(s, n->delta.a),
                          exec_vec(s, n->delta.dt),
                          s->reg[n->src[0]],
                          s->g->reg_width[n->src[0]],
                          div_up(n->delta.v_dim, DELTA_ROWS)};
    exec_par(s, s->n_tok, 8, 8.0 * (double)s->n_tok * (double)j.ld, prepare_range, &j);
    exec_acts_stale(s, j.qkv);
    double work =
        4.0 * (double)s->n_tok * (double)(n->delta.n_v_heads * n->delta.v_dim * n->delta.k_dim);
    exec_par(s, s->n_segs * n->delta.n_v_heads * j.row_groups, 1, work, delta_range, &j);
}
