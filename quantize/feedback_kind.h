// SPDX-License-Identifier: MIT
/* quantize/feedback_kind.h - what error feedback does with one row, and the three families of
 * blocks that it can change: those whose weights have a code each (feedback_open.c), those whose
 * weights share entries of a grid (feedback_grid.c), and sixteen-level floats (feedback_fp4.c).
 * Only feedback*.c include this. */
#ifndef HONE_QUANTIZE_FEEDBACK_KIND_H
#define HONE_QUANTIZE_FEEDBACK_KIND_H

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "quantize/axpy.h"
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

/* Returns row c0 + i of R from column c0 on. Blocks of weights never straddle blocks of R. */
static inline const float *fb_corr(const struct factor *f, int64_t c0, int i) {
    return f->r + (c0 + i) * f->block + c0 % f->block;
}
/* Computes out = R v over columns [c0, c0 + n). */
static inline void fb_times_r(const struct factor *f, float *restrict out, const float *v,
                              int64_t c0, int n) {
    memset(out, 0, (size_t)n * sizeof *out);
    for (int i = 0; i < n; i++)
        if (v[i] != 0) axpy(out, fb_corr(f, c0, i), v[i], n);
}

/* Returns by how much u R u^T changes when du[n] is added from column c0 on; rdu is R du. */
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
