// SPDX-License-Identifier: MIT
/* quantize/feedback_kind.h - error feedback within one row, and the interface of the three block
 * families.
 *
 * The families: one code per weight (feedback_open.c), weights that share grid entries
 * (feedback_grid.c), and sixteen-level floats (feedback_fp4.c). Only feedback*.c include this
 * file. */
#ifndef HONE_QUANTIZE_FEEDBACK_KIND_H
#define HONE_QUANTIZE_FEEDBACK_KIND_H

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "quantize/axpy.h"
#include "quantize/enc/super.h"
#include "quantize/feedback.h"

/* Operations of one block family. A block covers n weights from column c0. */
struct fb_kind {
    /* Size of an unpacked block, in bytes. */
    size_t bytes;
    /* Fits the scales of one block of each row to its targets, then chooses its codes in column
     * order, each with the feedback of all earlier columns. Sets u, and acc for the block's own
     * columns. */
    void (*pass)(const struct feedback *fb, struct fb_row *row, int rows, void *blocks, int64_t c0,
                 int n);
    /* Changes integers, scales and codes of one block of each row where that lowers the error u R
     * u^T. Keeps u up to date, and g for the later blocks of the window. */
    void (*descend)(const struct feedback *fb, struct fb_row *row, int rows, void *blocks,
                    int64_t c0);
    /* Multiplies the block's scales by gain; NULL: rows are not balanced. */
    void (*rescale)(void *block, double gain);
    /* Packs a block into its type's format. */
    void (*close)(const struct feedback *fb, const void *block, void *dst);
};
extern const struct fb_kind fb_kind_open, fb_kind_grid, fb_kind_fp4;

/* Returns row c0 + i of R, starting at column c0. No block of weights crosses a block boundary of
 * R. */
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

enum { FB_REFIT = 16 }; /* rows whose scales are fitted together */
/* Computes out = R v over columns [c0, c0 + n) for up to FB_REFIT rows. */
static inline void fb_times_rows(const struct factor *f, float (*out)[QK], float (*v)[QK], int rows,
                                 int64_t c0, int n) {
    const struct enc_product o = {.c = out[0],
                                  .a = v[0],
                                  .b = fb_corr(f, c0, 0),
                                  .ldc = QK,
                                  .lda = QK,
                                  .ldb = f->block,
                                  .m = rows,
                                  .k = n,
                                  .n = n};
    memset(out, 0, (size_t)rows * sizeof *out);
    enc_lanes()->product(&o);
}

/* Returns the change of u R u^T when du[n] is added to u, starting at column c0; rdu is R du. */
static inline double fb_change(const struct fb_row *r, const float *du, const float *rdu,
                               int64_t c0, int n) {
    const struct enc_lanes *lanes = enc_lanes();
    return lanes->dot(du, rdu, n) + 2 * lanes->dot(du, r->g + c0, n);
}
/* Changes u by du[n] at column c, and g = R u accordingly from column c0, the start of c's block.
 */
static inline void fb_accept(const struct factor *f, struct fb_row *r, const float *du, int64_t c,
                             int n, int64_t c0) {
    for (int i = 0; i < n; i++) r->u[c + i] += du[i];
    enc_lanes()->add_rows(r->g + c0, f->r + c * f->block + c0 % f->block, f->block, du, n,
                          (int)(r->w1 - c0));
}

#endif
