// SPDX-License-Identifier: MIT
/* quantize/feedback_kind.h - what error feedback does with one row, and the three families of
 * blocks that it can change: those whose weights have a code each (feedback_open.c), those whose
 * weights share entries of a grid (feedback_grid.c), and sixteen-level floats (feedback_fp4.c).
 * Only feedback*.c include this. */
#ifndef HONE_QUANTIZE_FEEDBACK_KIND_H
#define HONE_QUANTIZE_FEEDBACK_KIND_H

#include <math.h>
#include <string.h>

#include "core/num.h"
#include "quantize/feedback.h"

/* A row on its way. u is the scaled error of each weight, s * (x - x^). */
struct fb_row {
    const float *x; /* [n] the weights */
    float *u;       /* [n] */
    float
        *acc; /* [n] what the errors of the columns before add to the target of a column, times s */
    float *g; /* [n] R u */
    unsigned char *blocks; /* the row's blocks, kind->bytes each */
};

/* What is different from family to family. A block's first column is c0, its weights are n. */
struct fb_kind {
    /* Gives the size of a block on its way, in bytes. */
    size_t bytes;
    /* Settles the scales of a block on its targets, then its codes in column order, each with the
     * feedback of all before it. Sets u, and acc of the block's own columns. */
    void (*pass)(const struct feedback *fb, struct fb_row *r, void *block, int64_t c0, int n);
    /* Changes integers, scales and codes of a block where the error u R u^T falls; `round` counts
     * from 0. Keeps u and g true. */
    void (*descend)(const struct feedback *fb, struct fb_row *r, void *block, int64_t c0,
                    int round);
    /* Multiplies the scales of a block. */
    void (*rescale)(void *block, double gain);
    /* Packs a block into the bytes of its type. */
    void (*close)(const struct feedback *fb, const void *block, void *dst);
};
extern const struct fb_kind fb_kind_open, fb_kind_grid, fb_kind_fp4;

typedef float v4f __attribute__((vector_size(16)));

/* Adds a * x to y. Elements are independent, so the vector code computes what the scalar loop does.
 */
static inline void axpy(float *restrict y, const float *restrict x, float a, int64_t n) {
    if (n <= 0) return;
    const v4f va = {a, a, a, a};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        v4f x0, x1, y0, y1;
        memcpy(&x0, x + i, sizeof x0);
        memcpy(&x1, x + i + 4, sizeof x1);
        memcpy(&y0, y + i, sizeof y0);
        memcpy(&y1, y + i + 4, sizeof y1);
        y0 += va * x0;
        y1 += va * x1;
        memcpy(y + i, &y0, sizeof y0);
        memcpy(y + i + 4, &y1, sizeof y1);
    }
    for (int64_t left = n & 7; left > 0; left--, i++) y[i] += a * x[i];
}

/* Gives the target of a weight. One that is no usable number, as factors of enormous values make
 * it, falls back to the weight. */
static inline float fb_target(float x, float acc, float s) {
    float t = x + acc / s;
    return fabsf(t) < 1e30f ? t : x;
}

/* Adds to g what a change of u at column c by du does: R[:, c] * du over the block of R that holds
 * c. */
static inline void fb_moved(const struct factor *f, float *g, int64_t c, float du) {
    int64_t b0 = c / f->block * f->block;
    axpy(g + b0, f->r + c * f->block, du, min_i64(f->block, f->n - b0));
}

/* Row c0 + i of R from column c0 on: blocks of weights never straddle blocks of R. */
static inline const float *fb_corr(const struct factor *f, int64_t c0, int i) {
    return f->r + (c0 + i) * f->block + c0 % f->block;
}
/* out = R v over columns [c0, c0 + n). */
static inline void fb_times_r(const struct factor *f, float *restrict out, const float *v,
                              int64_t c0, int n) {
    memset(out, 0, (size_t)n * sizeof *out);
    for (int i = 0; i < n; i++)
        if (v[i] != 0) axpy(out, fb_corr(f, c0, i), v[i], n);
}

/* By how much u R u^T changes when du[n] is added from column c0 on; rdu: R du. */
static inline double fb_change(const struct fb_row *r, const float *du, const float *rdu,
                               int64_t c0, int n) {
    double e = 0;
    for (int i = 0; i < n; i++) e += (double)du[i] * ((double)rdu[i] + 2 * (double)r->g[c0 + i]);
    return e;
}
static inline void fb_accept(const struct factor *f, struct fb_row *r, const float *du, int64_t c0,
                             int n) {
    for (int i = 0; i < n; i++) {
        if (du[i] == 0) continue;
        r->u[c0 + i] += du[i];
        fb_moved(f, r->g, c0 + i, du[i]);
    }
}

#endif
