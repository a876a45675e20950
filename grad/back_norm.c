// SPDX-License-Identifier: MIT
/* grad/back_norm.c - derivatives of norms and biases. With y = x r w and r = 1 / sqrt(mean x^2 +
 * eps), dx = r (w dy - x r^2 mean(w dy x)); LayerNorm also subtracts the means. The gradient
 * of w is the sum of dy x r over tokens, that of a bias the sum of dy. Sums are in double. */
#include <math.h>
#include <stdlib.h>

#include "base/fp.h"
#include "base/mem.h"
#include "base/num.h"
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

/* Computes r of a group, and its mean: 0 if the norm does not subtract it. */
static void measure(const struct job *j, const float *x, double *mean, double *r) {
    const int64_t n = j->group;
    double sum = 0, square = 0;
    for (int64_t i = 0; i < n && j->centered; i++) sum += (double)x[i];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) square += ((double)x[i] - *mean) * ((double)x[i] - *mean);
    *r = 1 / sqrt(square / (double)n + (double)j->n->norm.eps);
}
/* Adds to dx the gradient of one normalized group; w NULL: without weights. */
static void norm_back(const struct job *j, const float *x, const float *dy, const float *w,
                      float *dx) {
    const int64_t n = j->group;
    double mean, r, a = 0, b = 0;
    measure(j, x, &mean, &r);
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

/* ---- factors and biases ---------------------------------------------------------------------- */

struct sums {
    const struct job *j; /* only `width` and, with dw, what the norm needs */
    const float *dy;
    double *group;   /* [n][groups][2] mean and r of each group; NULL for a bias */
    double *dw, *db; /* [period] sums over tokens and repeats of the vector */
    int64_t period;
};
/* Measures the groups of tokens t0 to t1 - 1; a pool_fn. */
static void measure_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct sums *s = ctx;
    const struct job *j = s->j;
    (void)worker;
    for (int64_t t = t0; t < t1; t++)
        for (int64_t c = 0; c < j->width; c += j->group) {
            double *to = s->group + (t * j->width + c) / j->group * 2;
            measure(j, j->k->src[0] + t * j->width + c, to, to + 1);
        }
}
enum { COLUMNS = 64 };
/* Adds up the columns of tasks i0 to i1 - 1; a pool_fn. */
static void sum_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct sums *s = ctx;
    const struct job *j = s->j;
    const int64_t from = i0 * COLUMNS, to = min_i64(i1 * COLUMNS, s->period);
    (void)worker;
    for (int64_t row = 0; row < j->g->n * j->width; row += s->period)
        for (int64_t c = from; c < to; c++) {
            const double d = (double)s->dy[row + c];
            s->db[c] += d;
            if (!s->group) continue;
            const double *m = s->group + (row + c) / j->group * 2;
            s->dw[c] += d * ((double)j->k->src[0][row + c] - m[0]) * m[1];
        }
}
/* Passes a gradient to the observer, unless the norm has no such vector. */
static void show(const struct grad *g, gr_w w, const double *d, int64_t n) {
    if (w != GR_NONE) g->see_vector(g->see_vector_ud, &g->g->weight[w], d, n);
}
/* Passes the gradients of a norm's factors and bias to the observer; dy: gradient of its output. */
static void show_factors(const struct job *j, const float *dy) {
    struct grad *g = j->g;
    if (!g->see_vector || j->n->norm.weight == GR_NONE) return;
    struct sums s = {.j = j, .dy = dy, .period = j->w_group};
    s.group = xcalloc((size_t)(g->n * (j->width / j->group) * 2 + 2 * s.period), sizeof(double));
    s.dw = s.group + g->n * (j->width / j->group) * 2;
    s.db = s.dw + s.period;
    grad_tokens(g, measure_range, &s);
    pool_for(g->pool, div_up(s.period, COLUMNS), 1, sum_range, &s);
    show(g, j->n->norm.weight, s.dw, s.period);
    if (j->centered) show(g, j->n->norm.bias, s.db, s.period);
    free(s.group);
}
/* Reports the gradient of a bias to the observer. The gradient of the rows does not change. */
void back_bias(struct grad *g, const struct gr_node *n, const struct kept *k) {
    const struct job j = {.g = g, .width = grad_width(g, n->dst)};
    struct sums s = {.j = &j, .dy = g->reg[n->dst], .period = j.width};
    (void)k;
    if (!g->see_vector) return;
    s.db = xcalloc((size_t)s.period, sizeof *s.db);
    pool_for(g->pool, div_up(s.period, COLUMNS), 1, sum_range, &s);
    show(g, n->bias.values, s.db, s.period);
    free(s.db);
}

/* ---- norms ----------------------------------------------------------------------------------- */

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

/* Adds the gradient of a norm's input, and passes those of its factors and bias to the observer. */
static void norm(struct job *j) {
    grad_tokens(j->g, norm_range, j);
    show_factors(j, j->dy);
}
/* Add the gradient of the input of an RMS norm, over whole rows or over each head. k holds the
 * input kept in the forward pass. */
void back_rms(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k, 0);
    norm(&j);
}
void back_rms_heads(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k, n->norm.head_dim);
    norm(&j);
}
/* Adds the gradient of a LayerNorm's input; k holds the input kept in the forward pass. */
void back_layer_norm(struct grad *g, const struct gr_node *n, const struct kept *k) {
    struct job j = job_of(g, n, k, n->norm.head_dim);
    j.centered = true;
    norm(&j);
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
    show_factors(&j, g->taken[1]);
}
