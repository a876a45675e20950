// SPDX-License-Identifier: MIT
/* grad/back_kda.c - derivatives of Kimi delta attention: the delta rule with a decay per column.
 *
 * For one head, with S its matrix [v_dim][k_dim], D = diag(decays) and b the sigmoid of beta: P = S
 * D, p = P k, d = b (v - p), S' = P + d k^T, o = S' q. Backward, with Z the gradient with respect
 * to S': Z += do q^T, dq = S'^T do, dd = Z k, dv = b dd, db = dd . (v - p), dk = Z^T d - b P^T dd.
 * The gradient of P is Y = Z - b dd k^T, that of a column's decay <Y, S> in this column, and Z for
 * the preceding token is Y D. */
#include <string.h>

#include "base/fp.h"
#include "grad/grad_int.h"

struct kda {
    struct grad *g;
    const struct gr_node *n;
    const struct kept *k;
    const float *dy, *a, *dt;
    int64_t heads, dk, dv;
};
struct head { /* a head, and its inputs at a token */
    const struct kda *j;
    int64_t h;
    const float *v;
    float beta;
    /* [k_dim] in the worker's scratch: normalized queries and keys, decays, gradients */
    float *q, *k, *decay, *dq, *dk, *ddecay;
};
enum { HEAD_ROWS = 6 }; /* rows of k_dim values in struct head */

int64_t grad_kda_scratch(const struct gr_node *n, int64_t n_ctx) {
    return grad_scan_floats(n->delta.k_dim * n->delta.v_dim, n_ctx) + HEAD_ROWS * n->delta.k_dim;
}

/* Returns row t of a source's kept values. */
static const float *src_at(const struct kda *j, int i, int64_t t) {
    return j->k->src[i] + t * grad_width(j->g, j->n->src[i]);
}
/* Returns row t of a source's gradients. */
static float *dsrc_at(const struct kda *j, int i, int64_t t) {
    return j->g->reg[j->n->src[i]] + t * grad_width(j->g, j->n->src[i]);
}

/* Returns the decay of key channel c, and its derivative with respect to src2. */
static float decay_of(const struct kda *j, const float *f, int64_t c, float *slope) {
    const float a = j->a[c / j->dk], x = f[c] + j->dt[c], bound = j->n->delta.bound;
    if (bound < 0) {
        const float s = fp_sigmoidf(a * x), y = fp_expf(bound * s);
        *slope = y * bound * a * s * (1 - s);
        return y;
    }
    const float y = fp_expf(a * fp_softplusf(x));
    *slope = y * a * fp_sigmoidf(x);
    return y;
}

/* Reads the inputs of token t. */
static void read_token(struct head *o, int64_t t) {
    const struct kda *j = o->j;
    const struct gr_delta *m = &j->n->delta;
    const float *row = src_at(j, 0, t), *f = src_at(j, 2, t);
    float unused;
    grad_unit(o->q, row + o->h * j->dk, j->dk, m->eps, m->scale);
    grad_unit(o->k, row + (j->heads + o->h) * j->dk, j->dk, m->eps, 1);
    o->v = row + 2 * j->heads * j->dk + o->h * j->dv;
    o->beta = fp_sigmoidf(src_at(j, 1, t)[o->h]);
    for (int64_t i = 0; i < j->dk; i++) o->decay[i] = decay_of(j, f, o->h * j->dk + i, &unused);
}

/* Computes the state after token t from the state s before it; `to` may be s. */
static void forward(void *ctx, int64_t t, const float *s, float *to) {
    struct head *o = ctx;
    const struct kda *j = o->j;
    const int64_t n = j->dk;
    read_token(o, t);
    for (int64_t r = 0; r < j->dv; r++) {
        float *row = to + r * n;
        for (int64_t i = 0; i < n; i++) row[i] = o->decay[i] * s[r * n + i];
        const float d = o->beta * (o->v[r] - j->g->s->kern.dot_f32(row, o->k, n));
        j->g->s->kern.axpy(row, o->k, d, n);
    }
}

/* Adds the gradients of a token's queries, keys, decays and beta to those of their inputs. */
static void inputs_back(const struct head *o, int64_t t, double dbeta) {
    const struct kda *j = o->j;
    const struct gr_delta *m = &j->n->delta;
    const int64_t q_at = o->h * j->dk, k_at = (j->heads + o->h) * j->dk;
    const float *row = src_at(j, 0, t), *f = src_at(j, 2, t);
    float *drow = dsrc_at(j, 0, t), *df = dsrc_at(j, 2, t);
    grad_unit_back(row + q_at, o->dq, j->dk, m->eps, m->scale, drow + q_at);
    grad_unit_back(row + k_at, o->dk, j->dk, m->eps, 1, drow + k_at);
    dsrc_at(j, 1, t)[o->h] += (float)dbeta * o->beta * (1 - o->beta);
    for (int64_t i = 0; i < j->dk; i++) {
        float slope;
        decay_of(j, f, q_at + i, &slope);
        df[q_at + i] += o->ddecay[i] * slope;
    }
}

/* Computes the backward pass of token t (struct grad_scan). */
static void backward(void *ctx, int64_t t, const float *s, const float *next, float *z) {
    struct head *o = ctx;
    const struct kda *j = o->j;
    const struct kern *kern = &j->g->s->kern;
    const int64_t n = j->dk;
    const float *dy = j->dy + t * grad_width(j->g, j->n->dst) + o->h * j->dv;
    float *dv = dsrc_at(j, 0, t) + 2 * j->heads * n + o->h * j->dv;
    double dbeta = 0;
    read_token(o, t);
    memset(o->dq, 0, (size_t)(3 * n) * sizeof *o->dq); /* dq, dk, ddecay */
    for (int64_t r = 0; r < j->dv; r++) {
        const float *sr = s + r * n;
        float *zr = z + r * n;
        double p = 0;
        kern->axpy(o->dq, next + r * n, dy[r], n);
        kern->axpy(zr, o->q, dy[r], n);
        for (int64_t i = 0; i < n; i++) p += (double)(o->decay[i] * sr[i]) * (double)o->k[i];
        const float dd = kern->dot_f32(zr, o->k, n), left = o->v[r] - (float)p, e = o->beta * dd;
        kern->axpy(o->dk, zr, o->beta * left, n);
        dbeta += (double)dd * (double)left;
        dv[r] += e;
        for (int64_t i = 0; i < n; i++) {
            const float y = zr[i] - e * o->k[i];
            o->dk[i] -= e * o->decay[i] * sr[i];
            o->ddecay[i] += y * sr[i];
            zr[i] = o->decay[i] * y;
        }
    }
    inputs_back(o, t, dbeta);
}

/* Runs heads h0 to h1 - 1; a pool_fn. */
static void heads_range(void *ctx, int64_t h0, int64_t h1, int worker) {
    const struct kda *j = ctx;
    for (int64_t h = h0; h < h1; h++) {
        struct head o = {.j = j, .h = h, .q = j->g->scratch[worker]};
        o.k = o.q + j->dk;
        o.decay = o.k + j->dk;
        o.dq = o.decay + j->dk;
        o.dk = o.dq + j->dk;
        o.ddecay = o.dk + j->dk;
        const struct grad_scan scan = {
            .size = j->dk * j->dv, .n = j->g->n, .ctx = &o, .forward = forward, .back = backward};
        grad_scan(&scan, o.q + HEAD_ROWS * j->dk);
    }
}

/* Adds the gradients of the inputs of Kimi delta attention. */
void back_kda(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct kda j = {.g = g, .n = n, .k = k};
    j.a = exec_vec(g->s, n->delta.a);
    j.dt = exec_vec(g->s, n->delta.dt);
    j.heads = n->delta.n_v_heads;
    j.dk = n->delta.k_dim;
    j.dv = n->delta.v_dim;
    j.dy = grad_take(g, n->dst, 0);
    pool_for(g->pool, j.heads, 1, heads_range, &j);
}
