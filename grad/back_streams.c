// SPDX-License-Identifier: MIT
/* grad/back_streams.c - derivatives of the operations on parallel residual streams, and of
 * activation sparsity by a cutoff (Gemma 3n). Sums are double. */
#include <math.h>

#include "grad/grad_int.h"

struct job {
    struct grad *g;
    const struct gr_node *n;
    const struct kept *k;
    const float *dy;        /* gradients of dst */
    int64_t width, of_src0; /* columns of dst and of source 0 */
};
/* Runs fn over the tokens. taken: dst's gradients are moved out first. */
static void run_rows(struct grad *g, const struct gr_node *n, const struct kept *k, bool taken,
                     pool_fn fn) {
    struct job j = {.g = g, .n = n, .k = k, .width = grad_width(g, n->dst)};
    j.dy = taken ? grad_take(g, n->dst, 0) : g->reg[n->dst];
    j.of_src0 = grad_width(g, n->src[0]);
    grad_tokens(g, fn, &j);
}
/* Returns row t of a source's values. */
static const float *src_row(const struct job *j, int i, int64_t t) {
    return j->k->src[i] + t * grad_width(j->g, j->n->src[i]);
}
/* Returns row t of a source's gradients. */
static float *dsrc_row(const struct job *j, int i, int64_t t) {
    return j->g->reg[j->n->src[i]] + t * grad_width(j->g, j->n->src[i]);
}

/* Adds the gradients of mixed streams and of their coefficients; a pool_fn. */
static void mix_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const struct kern *kern = &j->g->s->kern;
    int64_t k = 1;
    (void)worker;
    while (k * k < grad_width(j->g, j->n->src[1])) k++;
    const int64_t w = j->width / k;
    for (int64_t t = t0; t < t1; t++) {
        const float *x = src_row(j, 0, t), *c = src_row(j, 1, t), *dy = j->dy + t * j->width;
        float *dx = dsrc_row(j, 0, t), *dc = dsrc_row(j, 1, t);
        kern->axpy(dx, dy, 1, j->width);
        for (int64_t a = 0; a < k; a++)
            for (int64_t b = 0; b < k; b++) {
                kern->axpy(dx + b * w, dy + a * w, c[a * k + b], w);
                dc[a * k + b] += kern->dot_f32(dy + a * w, x + b * w, w);
            }
    }
}
/* Computes the backward pass of dst = src0 + src1 . src0, over streams. */
void back_mix(struct grad *g, const struct gr_node *n, const struct kept *k) {
    run_rows(g, n, k, true, mix_range);
}

/* Adds the gradients of a row that was added to several streams; a pool_fn. */
static void spread_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const struct kern *kern = &j->g->s->kern;
    const int64_t w = j->of_src0;
    const bool scaled = j->n->src[1] != GR_NONE;
    (void)worker;
    for (int64_t t = t0; t < t1; t++)
        for (int64_t a = j->n->pick.offset; a < j->width / w; a++) {
            const float *dy = j->dy + t * j->width + a * w;
            kern->axpy(dsrc_row(j, 0, t), dy, scaled ? 1 + src_row(j, 1, t)[a] : 1, w);
            if (scaled) dsrc_row(j, 1, t)[a] += kern->dot_f32(dy, src_row(j, 0, t), w);
        }
}
/* Computes the backward pass of dst += (1 + src1) src0, over streams; dst's gradients stay. */
void back_spread(struct grad *g, const struct gr_node *n, const struct kept *k) {
    run_rows(g, n, k, false, spread_range);
}

static double dot_of(const float *x, const float *y, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}
/* Adds the gradients of rescaled streams and of the row that sets their size; a pool_fn. */
static void level_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const int64_t w = j->of_src0;
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        const float *x = src_row(j, 0, t);
        float *dx = dsrc_row(j, 0, t);
        const double want = dot_of(x, x, w);
        for (int64_t at = t * j->width; at < (t + 1) * j->width; at += w) {
            const float *y = j->k->dst + at, *dy = j->dy + at;
            const double least = 1e-5 * (double)w, own = dot_of(y, y, w), dot = dot_of(y, dy, w);
            const double by = sqrt(want / fmax(own, least));
            const double back = own > least ? by * dot / own : 0;
            const double more = want > 0 ? by * dot / want : 0;
            for (int64_t i = 0; i < w; i++) {
                j->g->reg[j->n->dst][at + i] += (float)(by * (double)dy[i] - back * (double)y[i]);
                dx[i] += (float)(more * (double)x[i]);
            }
        }
    }
}
/* Computes the backward pass of streams that get the mean square of src0. */
void back_level(struct grad *g, const struct gr_node *n, const struct kept *k) {
    run_rows(g, n, k, true, level_range);
}

/* Adds the gradients of max(0, x - (mean + by * deviation)); a pool_fn. */
static void peaks_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const double n = (double)j->width, by = (double)j->n->scale.by;
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        const float *x = src_row(j, 0, t), *dy = j->dy + t * j->width;
        float *dx = dsrc_row(j, 0, t);
        double mean = 0, sq = 0, sum = 0;
        for (int64_t i = 0; i < j->width; i++) mean += (double)x[i] / n;
        for (int64_t i = 0; i < j->width; i++) sq += ((double)x[i] - mean) * ((double)x[i] - mean);
        const double dev = sqrt(sq / n);
        const float cut = (float)(mean + by * dev);
        for (int64_t i = 0; i < j->width; i++) {
            if (!(x[i] > cut)) continue;
            sum += (double)dy[i];
            dx[i] += dy[i];
        }
        for (int64_t i = 0; i < j->width; i++)
            dx[i] -= (float)(sum / n * (1 + (dev > 0 ? by * ((double)x[i] - mean) / dev : 0)));
    }
}
/* Computes the backward pass of activations cut off below a number of standard deviations. */
void back_peaks(struct grad *g, const struct gr_node *n, const struct kept *k) {
    run_rows(g, n, k, true, peaks_range);
}
