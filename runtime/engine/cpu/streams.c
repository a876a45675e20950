// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/streams.c - operations on several residual streams stored next to each other
 * in a row (Gemma 3n): mixing, adding to all of them, rescaling; also activation sparsity by a
 * cutoff. Formulas: models/ops.def. Sums are double. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "runtime/engine/exec.h"

enum { TOKEN_CHUNK = 16 };

struct job {
    const struct session *s;
    const struct gr_node *n;
    int64_t width, of[2]; /* columns of a row of dst, and of a row of each source */
};

/* Runs fn over the tokens of a pass; per_value: estimated work per value of dst. */
static void run_rows(struct session *s, const struct gr_node *n, double per_value, pool_fn fn) {
    struct job j = {.s = s, .n = n, .width = s->g->reg_width[n->dst]};
    for (int i = 0; i < 2; i++)
        if (n->src[i] != GR_NONE) j.of[i] = s->g->reg_width[n->src[i]];
    exec_par(s, s->n_tok, TOKEN_CHUNK, per_value * (double)(s->n_tok * j.width), fn, &j);
}
/* Returns row t of the node's output. */
static float *dst_row(const struct job *j, int64_t t) {
    return j->s->reg[j->n->dst] + t * j->width;
}
/* Returns row t of the node's input k. */
static const float *src_row(const struct job *j, int k, int64_t t) {
    return j->s->reg[j->n->src[k]] + t * j->of[k];
}

static void add_scaled(float *y, const float *x, float by, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += by * x[i];
}

/* Mixes the streams of tokens t0 to t1 - 1 by a k x k matrix per token, and adds the unmixed
 * streams. */
static void mix_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        const float *x = src_row(j, 0, t), *c = src_row(j, 1, t);
        int64_t k = 1;
        while (k * k < j->of[1]) k++;
        const int64_t w = j->width / k;
        float *y = dst_row(j, t);
        memcpy(y, x, (size_t)j->width * sizeof *y);
        for (int64_t a = 0; a < k; a++)
            for (int64_t b = 0; b < k; b++) add_scaled(y + a * w, x + b * w, c[a * k + b], w);
    }
}
/* Runs MIX for the pass (models/ops.def): mixes residual streams. */
void exec_mix(struct session *s, const struct gr_node *n) {
    run_rows(s, n, 8, mix_range);
}

/* Adds source 0, scaled for each stream, to the streams of tokens t0 to t1 - 1. */
static void spread_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const int64_t w = j->of[0];
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        const float *c = j->n->src[1] == GR_NONE ? NULL : src_row(j, 1, t);
        for (int64_t a = j->n->pick.offset; a < j->width / w; a++)
            add_scaled(dst_row(j, t) + a * w, src_row(j, 0, t), c ? 1 + c[a] : 1, w);
    }
}
/* Runs SPREAD for the pass (models/ops.def): adds src0 to several streams. */
void exec_spread(struct session *s, const struct gr_node *n) {
    run_rows(s, n, 2, spread_range);
}

static double mean_square(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum / (double)n;
}
/* Scales each stream of tokens t0 to t1 - 1 so that its mean square equals that of source 0. */
static void level_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    const int64_t w = j->of[0];
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        const double want = mean_square(src_row(j, 0, t), w);
        for (float *y = dst_row(j, t), *all = y + j->width; y < all; y += w) {
            const float by = (float)sqrt(want / fmax(mean_square(y, w), 1e-5));
            for (int64_t i = 0; i < w; i++) y[i] *= by;
        }
    }
}
/* Runs LEVEL for the pass (models/ops.def): gives streams the mean square of src0. */
void exec_level(struct session *s, const struct gr_node *n) {
    run_rows(s, n, 4, level_range);
}

/* Computes PEAKS for tokens t0 to t1 - 1; a pool_fn. */
static void peaks_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        const float *x = src_row(j, 0, t);
        double mean = 0, sq = 0;
        for (int64_t i = 0; i < j->width; i++) mean += (double)x[i];
        mean /= (double)j->width;
        for (int64_t i = 0; i < j->width; i++) sq += ((double)x[i] - mean) * ((double)x[i] - mean);
        const float cut = (float)(mean + (double)j->n->scale.by * sqrt(sq / (double)j->width));
        float *y = dst_row(j, t);
        for (int64_t i = 0; i < j->width; i++) y[i] = fmaxf(0, x[i] - cut);
    }
}
/* Runs PEAKS for the pass (models/ops.def): keeps only values far above the mean. */
void exec_peaks(struct session *s, const struct gr_node *n) {
    run_rows(s, n, 4, peaks_range);
}
