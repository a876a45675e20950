// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/packed.c - products of packed weights (model_pack) with 8-bit activations.
 *
 * Activations are rounded once for all products that read the same register; the executor calls
 * exec_acts_stale when it writes to one. */
#include <string.h>

#include "base/num.h"
#include "runtime/engine/exec.h"

/* Tokens whose activations stay in the L2 cache while groups of weight rows stream through. */
enum { TOKEN_BLOCK = 128 };

bool exec_is_packed(const struct session *s, const struct weight *w) {
    const struct kern_ops *op = &s->kern.op[w->type];
    return s->o.act == ACT_Q8 && w->packed && op->gemm && op->rows == w->pack_rows;
}

struct job {
    const struct session *s;
    enum qtype type;
    const float *x;
    int64_t ld, k, n_blocks;
    struct kern_act *dst;
};
/* Quantizes the input rows t0 to t1 - 1 for packed weights; a pool_fn. */
static void round_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t t = t0; t < t1; t++)
        kern_act(&j->s->kern, j->type, j->x + t * j->ld, j->k, j->dst + t * j->n_blocks);
}

const struct kern_act *exec_round(struct session *s, struct act_buf *b, const struct weight *w,
                                  const float *x, int64_t ld, int64_t m) {
    const enum qtype partner = kern_dot_partner(w->type);
    if (b->x == x && b->m == m && b->k == w->ne[0] && b->partner == partner) return b->act;
    struct job j = {s, w->type, x, ld, w->ne[0], kern_act_blocks(w->ne[0]), b->act};
    exec_par(s, m, 1, 8.0 * (double)m * (double)w->ne[0], round_range, &j);
    b->x = x;
    b->m = m;
    b->k = w->ne[0];
    b->partner = partner;
    return b->act;
}

void exec_acts_stale(struct session *s, const float *x) {
    for (int i = 0; i < ACT_BUFS; i++)
        if (!x || s->act_buf[i].x == x) s->act_buf[i].x = NULL;
}

int64_t exec_task_floats(int64_t n_ubatch) {
    return max_i64(n_ubatch * PANEL_MAX_ROWS, min_i64(n_ubatch, FEW_TOKENS) * RUN_MAX_ROWS);
}

int64_t exec_task_rows(const struct session *s, const struct weight *w, uint64_t row_bytes,
                       int64_t n_rows, int64_t n_mats, int64_t m) {
    const int64_t least = exec_panel_rows(w->ne[0]), mat = n_rows * (int64_t)row_bytes;
    if (m > FEW_TOKENS || !exec_is_packed(s, w)) return least;
    const int64_t share = n_mats * mat / (RUNS_PER_WORKER * s->n_workers);
    const int64_t run = max_i64(1, min_i64(share, RUN_BYTES));
    /* All tasks of a matrix have the same number of rows, a multiple of two groups. */
    const int64_t rows = div_up(div_up(n_rows, div_up(mat, run)), 32) * 32;
    return max_i64(least, min_i64(rows, RUN_MAX_ROWS));
}

void exec_rows_packed(const struct session *s, const struct weight *w, uint64_t mat_off, int64_t r0,
                      int64_t r1, const struct acts *a, float *out, int64_t ldo, float *scratch) {
    const struct kern_ops *op = &s->kern.op[w->type];
    for (int64_t t = 0; t < a->n_rows; t += TOKEN_BLOCK)
        op->gemm(w->packed + mat_off + (uint64_t)r0 * w->row_bytes, (r1 - r0) / op->rows,
                 a->p + t * a->p_ld, a->p_ld, min_i64(TOKEN_BLOCK, a->n_rows - t), out + t * ldo,
                 ldo, w->ne[0], scratch);
}
