// SPDX-License-Identifier: MIT
/* grad/back_norm.c - derivatives of norms. With y = x r w and r = 1 / sqrt(mean x^2 + eps), dx =
 * r (w dy - x r^2 mean(w dy x)); LayerNorm also subtracts the means. Sums are double. */
#include <math.h>

#include "base/fp.h"
#include "grad/grad_int.h"

struct job {
    struct grad *g;
    const struct gr_node *n;
    const struct kept *k;
    const float *dy, *w;           /* gradients of dst; factors, NULL: 1 */
    int64_t width, group, w_group; /* row length; values per norm; period of w */
    float *dx, *dz;                /* dz: gradient of the gate */
    bool centered;                 /* the mean is subtracted */
};

/* Adds to dx the gradient of one normalized group; w NULL: without weights. */
static void norm_back(const struct job *j, const float *x, const float *dy, const float *w,
                      float *dx) {
    const int64_t n = j->group;
    double mean = 0, square = 0, a = 0, b = 0;
    for (int64_t i = 0; i < n && j->centered; i++) mean += (double)x[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean);
    const double r = 1 / sqrt(square / (double)n + (double)j->n->norm.eps);
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)dy[i] * (w ? (double)w[i] : 1);
        a += d;
        b += d * ((double)x[i] - mean) * r;
    }
    a = j->centered ? a / (double)n : 0;
    b /= (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)dy[i] * (w ? (double)w[i] : 1);
        dx[i] += (float)(r * (d - a - ((double)x[i] - mean) * r * b));
    }
}

/* Adds the gradients of tokens t0 to t1 - 1; a pool_fn. */
static void norm_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t t = t0; t < t1; t++)
        for (int64_t c = 0; c < j->width; c += j->group) {
            const int64_t at = t * j->width + c;
            norm_back(j, j->k->src[0] + at, j->dy + at, j->w ? j->w + c % j->w_group : NULL,
                      j->dx + at);
        }
}

/* Returns the job for groups of `group` values; 0: the whole row. */
static struct job job_of(struct grad *g, const struct gr_node *n, const struct kept *k,
                         int64_t group) {
    const int64_t width = grad_width(g, n->dst);
    struct job j = {.g = g, .n = n, .k = k, .width = width, .group = group ? group : width};
    j.dy = grad_take(g, n->dst, 0);
    j.dx = g->reg[n->src[0]];
    j.w_group = j.group;
    if (n->norm.weight == GR_NONE) return j;
    const int64_t *ne = g->g->weight[n->norm.weight].ne;
    j.w = exec_vec(g->s, n->norm.weight);
    j.w_group = ne[0] * ne[1];
    return j;
}

/* Add the gradient of the input of an RMS norm, over whole rows or over each head; weights get no
 * gradient. k holds the input kept in the forward pass. */
void back_rms(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k, 0);
    grad_tokens(g, norm_range, &j);
}
void back_rms_heads(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k, n->norm.head_dim);
    grad_tokens(g, norm_range, &j);
}
/* Adds the gradient of a LayerNorm's input; weights get no gradient. k holds the input kept in the
 * forward pass. */
void back_layer_norm(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k, n->norm.head_dim);
    j.centered = true;
    grad_tokens(g, norm_range, &j);
}

/* Computes the backward pass of dst = norm * silu(z): the gate gets dy norm silu'(z), the norm
 * dy silu(z). */
static void gated_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    float *dy = j->g->taken[1];
    for (int64_t t = t0; t < t1; t++)
        for (int64_t c = 0; c < j->width; c += j->group) {
            const int64_t at = t * j->width + c;
            const float *x = j->k->src[0] + at, *z = j->k->src[1] + at, *w = j->w + c % j->w_group;
            double square = 0;
            for (int64_t i = 0; i < j->group; i++) square += (double)x[i] * (double)x[i];
            const float r = (float)(1 / sqrt(square / (double)j->group + (double)j->n->norm.eps));
            for (int64_t i = 0; i < j->group; i++) {
                j->dz[at + i] += j->dy[at + i] * x[i] * r * w[i] * grad_silu(z[i]);
                dy[at + i] = j->dy[at + i] * z[i] * fp_sigmoidf(z[i]);
            }
            norm_back(j, x, dy + at, w, j->dx + at);
        }
    (void)worker;
}
/* Adds the gradients of the input and the gate of a gated RMS norm; k holds both from the forward
 * pass. */
void back_gated_rms(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k, n->norm.head_dim);
    j.dz = g->reg[n->src[1]];
    grad_tokens(g, gated_range, &j);
}
