// SPDX-License-Identifier: MIT
/* grad/back_ssm.c - derivatives of the scans of Mamba 1 and 2.
 *
 * For one row S of the state, with a the decay, d the step and x the input: S' = a S + d x B, y =
 * S' . C + skip x. Backward, with Z the gradient with respect to S': Z += dy C, dC += dy S', dx = d
 * Z . B + skip dy, dB += d x Z, dd = x Z . B, da = Z S. Z for the preceding token is a Z. In Mamba
 * 2 a head has one decay exp(A d), in Mamba 1 each value of S has its own.
 *
 * A task is a head of Mamba 2, or some channels of Mamba 1. Tasks share B and C. So each of PARTS
 * tasks has its own sums of dB and dC, which are then added up in order. */
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "base/num.h"
#include "grad/grad_int.h"

enum { PARTS = 32, ROWS = 16 };

struct ssm {
    struct grad *g;
    const struct gr_node *n;
    const struct kept *k;
    const float *dy, *a, *dt, *skip;
    int64_t dim, rows, n_parts;       /* state values per row, rows per part, parts */
    int64_t part0;                    /* first part of the current batch */
    gr_reg shared;                    /* register with B and C */
    int64_t b_at, n_groups, of_group; /* column of B, groups of B and C, parts per group */
};
struct part { /* context of one part's scan */
    const struct ssm *j;
    int64_t index, row0, n_rows;
    float *sums; /* [n][2][dim] gradients of B and C */
};

static const float *src_at(const struct ssm *j, int i, int64_t t) {
    return j->k->src[i] + t * grad_width(j->g, j->n->src[i]);
}
static float *dreg_at(const struct ssm *j, gr_reg r, int64_t t) {
    return j->g->reg[r] + t * grad_width(j->g, r);
}
/* Returns B of the part's group at token t; C follows the B of all groups. */
static const float *b_of(const struct part *p, int64_t t) {
    const struct ssm *j = p->j;
    const float *row = src_at(j, j->shared == j->n->src[0] ? 0 : 2, t);
    return row + j->b_at + p->index / j->of_group * j->dim;
}
static const float *c_of(const struct part *p, int64_t t) {
    return b_of(p, t) + p->j->n_groups * p->j->dim;
}

/* ---- Mamba 2 --------------------------------------------------------------------------------- */

/* Returns the input of softplus for the part's head at token t. */
static float step2(const struct part *p, int64_t t) {
    const struct ssm *j = p->j;
    return src_at(j, 1, t)[j->n->delta.offset + p->index] + j->dt[p->index];
}
/* Computes the head's state after token t; to may be s. */
static void forward2(void *ctx, int64_t t, const float *s, float *to) {
    const struct part *p = ctx;
    const struct ssm *j = p->j;
    const float *x = src_at(j, 0, t) + p->row0, *b = b_of(p, t);
    const float d = fp_softplusf(step2(p, t)), decay = fp_expf(j->a[p->index] * d);
    for (int64_t r = 0; r < p->n_rows; r++)
        for (int64_t i = 0; i < j->dim; i++)
            to[r * j->dim + i] = decay * s[r * j->dim + i] + d * x[r] * b[i];
}
/* Computes the backward pass of token t for the head (struct grad_scan). */
static void back2(void *ctx, int64_t t, const float *s, const float *next, float *z) {
    const struct part *p = ctx;
    const struct ssm *j = p->j;
    const struct kern *kern = &j->g->s->kern;
    const float *x = src_at(j, 0, t) + p->row0, *b = b_of(p, t), *c = c_of(p, t);
    const float raw = step2(p, t), d = fp_softplusf(raw), a = j->a[p->index],
                decay = fp_expf(a * d);
    const float *dy = j->dy + t * grad_width(j->g, j->n->dst) + p->row0;
    float *dx = dreg_at(j, j->n->src[0], t) + p->row0;
    float *db = p->sums + t * 2 * j->dim, *dc = db + j->dim;
    double dd = 0, da = 0;
    for (int64_t r = 0; r < p->n_rows; r++) {
        float *zr = z + r * j->dim;
        kern->axpy(zr, c, dy[r], j->dim);
        kern->axpy(dc, next + r * j->dim, dy[r], j->dim);
        const float zb = kern->dot_f32(zr, b, j->dim);
        dx[r] += d * zb + j->skip[p->index] * dy[r];
        dd += (double)x[r] * (double)zb;
        da += (double)kern->dot_f32(zr, s + r * j->dim, j->dim);
        kern->axpy(db, zr, d * x[r], j->dim);
        for (int64_t i = 0; i < j->dim; i++) zr[i] *= decay;
    }
    dreg_at(j, j->n->src[1], t)[j->n->delta.offset + p->index] +=
        (float)(dd + (double)(a * decay) * da) * fp_sigmoidf(raw);
}

/* ---- Mamba 1 --------------------------------------------------------------------------------- */

/* Computes the channels' states after token t; to may be s. */
static void forward1(void *ctx, int64_t t, const float *s, float *to) {
    const struct part *p = ctx;
    const struct ssm *j = p->j;
    const float *x = src_at(j, 0, t) + p->row0, *raw = src_at(j, 1, t) + p->row0, *b = b_of(p, t);
    const float *a = j->a + p->row0 * j->dim;
    for (int64_t r = 0; r < p->n_rows; r++) {
        const float d = fp_softplusf(raw[r]);
        for (int64_t i = r * j->dim, e = i + j->dim; i < e; i++)
            to[i] = fp_expf(d * a[i]) * s[i] + d * x[r] * b[i - r * j->dim];
    }
}
/* Computes the backward pass of token t for the channels (struct grad_scan). */
static void back1(void *ctx, int64_t t, const float *s, const float *next, float *z) {
    const struct part *p = ctx;
    const struct ssm *j = p->j;
    const struct kern *kern = &j->g->s->kern;
    const float *x = src_at(j, 0, t) + p->row0, *raw = src_at(j, 1, t) + p->row0;
    const float *b = b_of(p, t), *c = c_of(p, t);
    const float *dy = j->dy + t * grad_width(j->g, j->n->dst) + p->row0;
    float *dx = dreg_at(j, j->n->src[0], t) + p->row0;
    float *draw = dreg_at(j, j->n->src[1], t) + p->row0;
    float *db = p->sums + t * 2 * j->dim, *dc = db + j->dim;
    for (int64_t r = 0; r < p->n_rows; r++) {
        const float *sr = s + r * j->dim, *a = j->a + (p->row0 + r) * j->dim;
        const float d = fp_softplusf(raw[r]);
        float *zr = z + r * j->dim;
        kern->axpy(zr, c, dy[r], j->dim);
        kern->axpy(dc, next + r * j->dim, dy[r], j->dim);
        const float zb = kern->dot_f32(zr, b, j->dim);
        kern->axpy(db, zr, d * x[r], j->dim);
        double dd = (double)x[r] * (double)zb;
        for (int64_t i = 0; i < j->dim; i++) {
            zr[i] *= fp_expf(d * a[i]);
            dd += (double)zr[i] * (double)sr[i] * (double)a[i];
        }
        dx[r] += d * zb + j->skip[p->row0 + r] * dy[r];
        draw[r] += (float)dd * fp_sigmoidf(raw[r]);
    }
}

/* ---- parts ----------------------------------------------------------------------------------- */

int64_t grad_ssm_scratch(const struct gr_node *n, int64_t n_ctx) {
    const int64_t rows = n->op == OP_MAMBA2 ? n->delta.v_dim : ROWS;
    return grad_scan_floats(rows * n->delta.k_dim, n_ctx);
}
int64_t grad_ssm_shared(const struct gr_node *n, int64_t n_ctx) {
    return PARTS * n_ctx * 2 * n->delta.k_dim;
}

/* Runs parts i0 to i1 - 1 of the current batch; a pool_fn. */
static void parts_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct ssm *j = ctx;
    const bool two = j->n->op == OP_MAMBA2;
    const int64_t all = j->n->delta.n_v_heads * j->n->delta.v_dim, row = 2 * j->dim;
    for (int64_t i = i0; i < i1; i++) {
        struct part p = {.j = j, .index = j->part0 + i, .sums = j->g->shared + i * j->g->n * row};
        p.row0 = p.index * j->rows;
        p.n_rows = min_i64(j->rows, all - p.row0);
        memset(p.sums, 0, (size_t)(j->g->n * row) * sizeof *p.sums);
        const struct grad_scan scan = {.size = p.n_rows * j->dim,
                                       .n = j->g->n,
                                       .ctx = &p,
                                       .forward = two ? forward2 : forward1,
                                       .back = two ? back2 : back1};
        grad_scan(&scan, j->g->scratch[worker]);
    }
}
/* Adds the batch's gradients of B and C for tokens t0 to t1 - 1; a pool_fn. */
static void sum_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct ssm *j = ctx;
    const struct kern *kern = &j->g->s->kern;
    (void)worker;
    for (int64_t t = t0; t < t1; t++)
        for (int64_t i = 0; i < min_i64(PARTS, j->n_parts - j->part0); i++) {
            const float *db = j->g->shared + (i * j->g->n + t) * 2 * j->dim;
            float *to = dreg_at(j, j->shared, t) + j->b_at + (j->part0 + i) / j->of_group * j->dim;
            kern->axpy(to, db, 1, j->dim);
            kern->axpy(to + j->n_groups * j->dim, db + j->dim, 1, j->dim);
        }
}
/* Runs all parts, PARTS at a time. */
static void run_parts(struct ssm *j) {
    j->dy = grad_take(j->g, j->n->dst, 0);
    for (j->part0 = 0; j->part0 < j->n_parts; j->part0 += PARTS) {
        pool_for(j->g->pool, min_i64(PARTS, j->n_parts - j->part0), 1, parts_range, j);
        grad_tokens(j->g, sum_range, j);
    }
}

/* Adds the gradients of the inputs of Mamba 2's scan. */
void back_mamba2(struct grad *g, const struct gr_node *n, const struct kept *k) {
    const struct gr_delta *m = &n->delta;
    struct ssm j = {.g = g, .n = n, .k = k, .dim = m->k_dim, .rows = m->v_dim};
    j.a = exec_vec(g->s, m->a);
    j.dt = exec_vec(g->s, m->dt);
    j.skip = exec_vec(g->s, m->skip);
    j.shared = n->src[0];
    j.b_at = m->n_v_heads * m->v_dim;
    j.n_groups = m->n_k_heads;
    j.n_parts = m->n_v_heads;
    j.of_group = m->n_v_heads / m->n_k_heads;
    run_parts(&j);
}
/* Adds the gradients of the inputs of Mamba 1's scan. */
void back_mamba1(struct grad *g, const struct gr_node *n, const struct kept *k) {
    const struct gr_delta *m = &n->delta;
    struct ssm j = {.g = g, .n = n, .k = k, .dim = m->k_dim, .rows = ROWS};
    j.a = exec_vec(g->s, m->a);
    j.skip = exec_vec(g->s, m->skip);
    j.shared = n->src[2];
    j.n_groups = 1;
    j.n_parts = j.of_group = div_up(m->v_dim, ROWS);
    run_parts(&j);
}
