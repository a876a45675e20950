// SPDX-License-Identifier: MIT
/* grad/back_delta.c - derivatives of short convolutions and of the gated delta rule.
 *
 * The rule for one head, with S its matrix [v_dim][k_dim], a the decay and b the sigmoid of beta: p
 * = S k, d = b (v - a p), S' = a S + d k^T, o = S' q. Backward (kern.delta_back), with Z the
 * gradient with respect to S': Z += do q^T, dq = S'^T do, dd = Z k, dk = Z^T d, da = <Z, S>, and
 * through d: dv = b dd, db = dd . (v - a p), da -= b dd . p, dk -= a b S^T dd. Z for the preceding
 * token is a Z - a b dd k^T. scan.c recomputes the matrices. */
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "base/num.h"
#include "grad/grad_int.h"

/* ---- convolutions ---------------------------------------------------------------------------- */

struct conv {
    struct grad *g;
    const struct gr_node *n;
    const struct kept *k;
    const float *dy, *w, *bias;
    int64_t n_ch, width;
};

/* Adds the gradients of channels c0 to c1 - 1 of the convolution; a pool_fn. */
static void conv_range(void *ctx, int64_t c0, int64_t c1, int worker) {
    const struct conv *j = ctx;
    const float *x = j->k->dst;
    (void)worker;
    for (int64_t t = 0; t < j->g->n; t++)
        for (int64_t c = c0; c < c1; c++) {
            const float *w = j->w + c * j->width;
            const int64_t from = max_i64(0, j->width - 1 - t);
            float u = j->bias ? j->bias[c] : 0;
            for (int64_t i = from; i < j->width; i++)
                u += w[i] * x[(t - j->width + 1 + i) * j->n_ch + c];
            const float du = j->dy[t * j->n_ch + c] * grad_silu(u);
            for (int64_t i = from; i < j->width; i++)
                j->g->reg[j->n->dst][(t - j->width + 1 + i) * j->n_ch + c] += du * w[i];
        }
}
/* Computes the backward pass of silu(c), where c is a causal convolution of each channel; weights
 * get no gradient. */
void back_conv_silu(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct conv j = {.g = g, .n = n, .k = k, .n_ch = grad_width(g, n->dst)};
    j.w = exec_vec(g->s, n->conv.weight);
    j.bias = n->conv.bias == GR_NONE ? NULL : exec_vec(g->s, n->conv.bias);
    j.width = g->g->weight[n->conv.weight].ne[0];
    j.dy = grad_take(g, n->dst, 0);
    pool_for(g->pool, j.n_ch, 64, conv_range, &j);
}

/* Computes the backward pass of dst = c * convolution of b * x, where src0 = b | c | x. */
static void short_range(void *ctx, int64_t c0, int64_t c1, int worker) {
    const struct conv *j = ctx;
    const int64_t n = j->n_ch, ld = 3 * n;
    const float *x = j->k->src[0];
    float *dx = j->g->reg[j->n->src[0]];
    (void)worker;
    for (int64_t t = 0; t < j->g->n; t++)
        for (int64_t c = c0; c < c1; c++) {
            const float *w = j->w + c * j->width;
            const int64_t from = max_i64(0, j->width - 1 - t);
            const float dy = j->dy[t * n + c];
            float u = 0;
            for (int64_t i = from; i < j->width; i++) {
                const float *r = x + (t - j->width + 1 + i) * ld + c;
                u += w[i] * r[0] * r[2 * n];
            }
            const float du = dy * x[t * ld + n + c];
            dx[t * ld + n + c] += dy * u;
            for (int64_t i = from; i < j->width; i++) {
                const int64_t at = (t - j->width + 1 + i) * ld + c;
                dx[at] += du * w[i] * x[at + 2 * n];
                dx[at + 2 * n] += du * w[i] * x[at];
            }
        }
}
/* Adds the gradient of b, c and x of a gated short convolution (short_range). */
void back_short_conv(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct conv j = {.g = g, .n = n, .k = k, .n_ch = grad_width(g, n->dst)};
    j.w = exec_vec(g->s, n->conv.weight);
    j.width = g->g->weight[n->conv.weight].ne[0];
    j.dy = grad_take(g, n->dst, 0);
    pool_for(g->pool, j.n_ch, 64, short_range, &j);
}

/* ---- the delta rule -------------------------------------------------------------------------- */

struct delta {
    struct grad *g;
    const struct gr_node *n;
    const struct kept *k;
    const float *dy, *a, *dt;
    int64_t dk, dv, hk, hv, ld; /* ld: length of q | k | v */
};

int64_t grad_delta_scratch(const struct gr_node *n, int64_t n_ctx) {
    return grad_scan_floats(n->delta.k_dim * n->delta.v_dim, n_ctx) + 4 * n->delta.k_dim +
           n->delta.v_dim;
}

/* Returns the offset of a head's beta logit in src1; alpha's is in src1 or src2. */
static int64_t beta_at(const struct delta *j, int64_t h) {
    return j->n->delta.grouped ? h + h / (j->hv / j->hk) * (j->hv / j->hk) : h;
}
/* Returns the column of head h's alpha; if grouped, it follows the betas of its key head. */
static int64_t alpha_at(const struct delta *j, int64_t h) {
    return j->n->delta.grouped ? beta_at(j, h) + j->hv / j->hk : h;
}
/* Returns the index of the node's source that has the alphas. */
static int alpha_src(const struct delta *j) {
    return j->n->delta.grouped ? 1 : 2;
}

struct head { /* a head, and its inputs at a token */
    const struct delta *j;
    int64_t h, kh; /* value head, key head */
    const float *v;
    float *q, *k, *dq, *dk;   /* [k_dim] normalized, and gradients; the worker's scratch */
    float *out;               /* [v_dim] unused outputs of the forward pass */
    float beta, decay, alpha; /* alpha: input of softplus */
};
void grad_unit(float *to, const float *x, int64_t n, float eps, float scale) {
    double sum = (double)eps;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    const float r = (float)(1 / sqrt(sum));
    for (int64_t i = 0; i < n; i++) to[i] = scale * r * x[i];
}
void grad_unit_back(const float *x, const float *dy, int64_t n, float eps, float scale, float *dx) {
    double dot = 0, sum = (double)eps;
    for (int64_t i = 0; i < n; i++) {
        dot += (double)x[i] * (double)dy[i];
        sum += (double)x[i] * (double)x[i];
    }
    const float r = (float)(1 / sqrt(sum)), by = (float)dot * r * r;
    for (int64_t i = 0; i < n; i++) dx[i] += scale * r * (dy[i] - by * x[i]);
}

/* Reads the normalized inputs, gate and decay of token t. */
static void read_token(struct head *o, int64_t t) {
    const struct delta *j = o->j;
    const float *row = j->k->src[0] + t * j->ld;
    const int sa = alpha_src(j);
    const float b = j->k->src[1][t * grad_width(j->g, j->n->src[1]) + beta_at(j, o->h)];
    grad_unit(o->q, row + o->kh * j->dk, j->dk, j->n->delta.eps, j->n->delta.scale);
    grad_unit(o->k, row + (j->hk + o->kh) * j->dk, j->dk, j->n->delta.eps, 1);
    o->v = row + 2 * j->hk * j->dk + o->h * j->dv;
    o->beta = fp_sigmoidf(b);
    o->alpha = j->k->src[sa][t * grad_width(j->g, j->n->src[sa]) + alpha_at(j, o->h)] + j->dt[o->h];
    o->decay = fp_expf(j->a[o->h] * fp_softplusf(o->alpha));
}

/* Computes the state after token t from the state s before it; `to` may be s. */
static void forward(void *ctx, int64_t t, const float *s, float *to) {
    struct head *o = ctx;
    const struct delta *j = o->j;
    read_token(o, t);
    if (to != s) memcpy(to, s, (size_t)(j->dk * j->dv) * sizeof *to);
    j->g->s->kern.delta_rows(to, o->q, o->k, j->dk, o->v, j->dv, o->out, j->dv, &o->decay, &o->beta,
                             1, 1, j->dk, 0, j->dv);
}

/* Adds a token's gradients of beta and of the decay to those of their inputs. */
static void gates_back(const struct head *o, int64_t t, double dbeta, double da) {
    const struct delta *j = o->j;
    const gr_reg rb = j->n->src[1], ra = j->n->src[alpha_src(j)];
    j->g->reg[rb][t * grad_width(j->g, rb) + beta_at(j, o->h)] +=
        (float)dbeta * o->beta * (1 - o->beta);
    j->g->reg[ra][t * grad_width(j->g, ra) + alpha_at(j, o->h)] +=
        (float)da * o->decay * j->a[o->h] * fp_sigmoidf(o->alpha);
}

/* Computes the backward pass of token t (struct grad_scan). */
static void backward(void *ctx, int64_t t, const float *s, const float *next, float *z) {
    struct head *o = ctx;
    const struct delta *j = o->j;
    const struct gr_delta *m = &j->n->delta;
    const int64_t n = j->dk, q_at = o->kh * n, k_at = (j->hk + o->kh) * n;
    const float *row = j->k->src[0] + t * j->ld;
    float *drow = j->g->reg[j->n->src[0]] + t * j->ld;
    (void)next;
    read_token(o, t);
    memset(o->dq, 0, (size_t)n * sizeof *o->dq);
    memset(o->dk, 0, (size_t)n * sizeof *o->dk);
    struct kern_delta_back b = {.n_k = n, .n_v = j->dv, .q = o->q, .k = o->k, .v = o->v};
    b.dy = j->dy + t * grad_width(j->g, j->n->dst) + o->h * j->dv;
    b.decay = o->decay;
    b.beta = o->beta;
    b.dq = o->dq;
    b.dk = o->dk;
    b.dv = drow + 2 * j->hk * n + o->h * j->dv;
    j->g->s->kern.delta_back(&b, s, z);
    grad_unit_back(row + q_at, o->dq, n, m->eps, m->scale, drow + q_at);
    grad_unit_back(row + k_at, o->dk, n, m->eps, 1, drow + k_at);
    gates_back(o, t, b.dbeta, b.ddecay);
}

/* Runs the backward pass over all tokens of value head h, which uses the keys of key head kh. */
static void one_head(const struct delta *j, int64_t h, int64_t kh, float *room) {
    struct head o = {.j = j, .h = h, .kh = kh, .q = room};
    o.k = o.q + j->dk;
    o.dq = o.k + j->dk;
    o.dk = o.dq + j->dk;
    o.out = o.dk + j->dk;
    const struct grad_scan scan = {
        .size = j->dk * j->dv, .n = j->g->n, .ctx = &o, .forward = forward, .back = backward};
    grad_scan(&scan, o.out + j->dv);
}

/* Runs key heads [k0, k1). A key head is one task, because the value heads that share it add to the
 * same gradients. */
static void delta_range(void *ctx, int64_t k0, int64_t k1, int worker) {
    const struct delta *j = ctx;
    for (int64_t kh = k0; kh < k1; kh++)
        for (int64_t h = 0; h < j->hv; h++) {
            const int64_t of = j->n->delta.grouped ? h / (j->hv / j->hk) : h % j->hk;
            if (of == kh) one_head(j, h, kh, j->g->scratch[worker]);
        }
}

/* Adds the gradients of the inputs of a delta-rule node. */
void back_delta(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct delta j = {.g = g,
                      .n = n,
                      .k = k,
                      .a = exec_vec(g->s, n->delta.a),
                      .dt = exec_vec(g->s, n->delta.dt),
                      .dk = n->delta.k_dim,
                      .dv = n->delta.v_dim,
                      .hk = n->delta.n_k_heads,
                      .hv = n->delta.n_v_heads,
                      .ld = grad_width(g, n->src[0])};
    j.dy = grad_take(g, n->dst, 0);
    pool_for(g->pool, j.hk, 1, delta_range, &j);
}
