// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/matmul.c - dense products of activation rows with a weight of any type.
 *
 * The method depends only on the weight's type and the mode, so that a row's result does not depend
 * on the batch. 8-bit activations use packed rows (packed.c), or dot products for types without a
 * packed form. Otherwise a task decodes a panel of weight rows to f32 (f32 weights are used in
 * place) and multiplies it with all rows. */
#include <string.h>

#include "base/num.h"
#include "kernels/blas.h"
#include "kernels/dev_product.h"
#include "runtime/engine/exec.h"

int64_t exec_panel_rows(int64_t k) {
    int64_t r = PANEL_FLOATS / (k > 0 ? k : 1) / 16 * 16;
    return r < 16 ? 16 : r > PANEL_MAX_ROWS ? PANEL_MAX_ROWS : r;
}

struct quant_job {
    const struct session *s;
    const struct acts *a;
    enum qtype type;
    int64_t k;
    uint8_t *dst;
};
/* Quantizes the input rows t0 to t1 - 1; a pool_fn. */
static void quant_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct quant_job *j = ctx;
    (void)worker;
    for (int64_t t = t0; t < t1; t++)
        j->s->kern.act_quant(j->type, j->a->x + t * j->a->ld, j->dst + (uint64_t)t * j->a->q_row,
                             j->k);
}

void exec_acts(struct session *s, struct acts *a, const struct weight *w, const float *x,
               int64_t ld, int64_t m, int buf, bool exact) {
    *a = (struct acts){.x = x, .ld = ld, .n_rows = m};
    if (!exact && exec_is_packed(s, w)) {
        const int dense = kern_dot_partner(w->type) == QT_Q8_K ? ACT_DENSE : ACT_DENSE2;
        a->p = exec_round(s, &s->act_buf[dense], w, x, ld, m);
        a->p_ld = kern_act_blocks(w->ne[0]);
        return;
    }
    enum qtype partner = kern_dot_partner(w->type);
    if (exact || s->o.act != ACT_Q8 || partner == QT_F32 || !s->kern.op[w->type].dot) return;
    a->q_row = qtype_row_bytes(partner, w->ne[0]);
    /* If the type has no such rows, fall back to f32 activations, which are always correct. */
    if (!a->q_row || a->q_row > s->qbuf_row) {
        a->q_row = 0;
        return;
    }
    struct quant_job j = {s, a, partner, w->ne[0], s->qbuf[buf]};
    exec_par(s, m, 1, (double)m * (double)w->ne[0], quant_range, &j);
    a->q = s->qbuf[buf];
}

/* Multiplies rows [r0, r1) of the matrix `mat` by all rows of a; out[t * ldo] is the start of row
 * t. */
static void rows_dot(const struct session *s, const struct weight *w, const uint8_t *mat,
                     int64_t r0, int64_t r1, const struct acts *a, float *out, int64_t ldo) {
    const struct kern_ops *op = &s->kern.op[w->type];
    for (int64_t r = r0; r < r1; r++) {
        const uint8_t *wr = mat + (uint64_t)r * w->row_bytes;
        float *o = out + (r - r0);
        if (op->dots)
            op->dots(wr, a->q, a->q_row, a->n_rows, o, ldo, w->ne[0]);
        else
            for (int64_t t = 0; t < a->n_rows; t++)
                o[t * ldo] = op->dot(wr, a->q + (uint64_t)t * a->q_row, w->ne[0]);
    }
}

/* Computes exec_rows without the weight's scales. */
static void plain_rows(const struct session *s, const struct weight *w, const uint8_t *mat,
                       int64_t r0, int64_t r1, const struct acts *a, float *out, int64_t ldo,
                       float *scratch) {
    if (a->p) {
        exec_rows_packed(s, w, (uint64_t)(mat - (const uint8_t *)w->data), r0, r1, a, out, ldo,
                         scratch);
        return;
    }
    if (a->q) {
        rows_dot(s, w, mat, r0, r1, a, out, ldo);
        return;
    }
    int64_t k = w->ne[0];
    const float *b = (const float *)(const void *)(mat + (uint64_t)r0 * w->row_bytes);
    if (w->type != QT_F32) {
        for (int64_t r = r0; r < r1; r++)
            s->kern.op[w->type].decode(mat + (uint64_t)r * w->row_bytes, scratch + (r - r0) * k, k);
        b = scratch;
    }
    blas_product(&s->kern, s->blas, a->x, a->ld, b, k, out, ldo, a->n_rows, r1 - r0, k);
}

void exec_rows(const struct session *s, const struct weight *w, const uint8_t *mat, int64_t r0,
               int64_t r1, const struct acts *a, float *out, int64_t ldo, float *scratch) {
    plain_rows(s, w, mat, r0, r1, a, out, ldo, scratch);
    const float by = weight_scale(w, mat);
    for (int64_t t = 0; w->scale && t < a->n_rows; t++)
        for (int64_t r = 0; r < r1 - r0; r++) out[t * ldo + r] *= by;
}

struct product_job {
    struct session *s;
    const struct weight *w;
    struct acts a;
    float *out;
    int64_t ldo, panel, n_panels, t_block;
};
/* Computes items [i0, i1) of a product. An item is a panel of weight rows and a block of tokens. */
static void product_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct product_job *j = ctx;
    for (int64_t i = i0; i < i1; i++) {
        int64_t r0 = i % j->n_panels * j->panel, r1 = min_i64(r0 + j->panel, j->w->ne[1]);
        int64_t t0 = i / j->n_panels * j->t_block;
        struct acts a = j->a;
        a.x += t0 * a.ld;
        if (a.p) a.p += t0 * a.p_ld;
        if (a.q) a.q += (uint64_t)t0 * a.q_row;
        a.n_rows = min_i64(j->t_block, j->a.n_rows - t0);
        exec_rows(j->s, j->w, j->w->data, r0, r1, &a, j->out + t0 * j->ldo + r0, j->ldo,
                  j->s->scratch[worker]);
    }
}

void exec_product(struct session *s, const struct weight *w, const float *x, int64_t ld, int64_t m,
                  float *out, int64_t ldo, bool exact) {
    const struct dev_matrix mat = {w->type, w->data, w->row_bytes, w->ne[1], w->ne[0]};
    if (!w->scale && dev_product_rows(s->products, &mat, x, ld, out, ldo, m)) return;
    for (; m > s->o.n_ubatch && !exact && s->o.act == ACT_Q8; m -= s->o.n_ubatch) {
        exec_product(s, w, x, ld, s->o.n_ubatch, out, ldo, exact);
        x += s->o.n_ubatch * ld;
        out += s->o.n_ubatch * ldo;
    }
    struct product_job j = {.s = s, .w = w, .out = out, .ldo = ldo, .t_block = m};
    exec_acts(s, &j.a, w, x, ld, m, 0, exact);
    j.panel = exec_task_rows(s, w, w->row_bytes, w->ne[1], 1, m);
    j.n_panels = div_up(w->ne[1], j.panel);
    /* With too few panels to occupy all threads, also split the tokens. */
    if (j.a.p || j.a.q || j.n_panels < 8) j.t_block = 128;
    int64_t n_items = j.n_panels * div_up(m, j.t_block);
    exec_par(s, n_items, 1, (double)m * (double)w->ne[0] * (double)w->ne[1], product_range, &j);
}

/* Runs MATMUL for the pass (models/ops.def): one matrix product. */
void exec_matmul(struct session *s, const struct gr_node *n) {
    int64_t ld = s->g->reg_width[n->src[0]];
    exec_show(s, n->product.matrix, s->reg[n->src[0]], ld);
    exec_product(s, model_weight(s->m, n->product.matrix), s->reg[n->src[0]], ld, s->n_tok,
                 s->reg[n->dst], s->g->reg_width[n->dst], false);
}
