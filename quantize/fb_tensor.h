// SPDX-License-Identifier: MIT
/* quantize/fb_tensor.h - one tensor with error feedback: its factor, matrix by matrix, and how much
 * of the measured correlation is believed. */
#ifndef HONE_QUANTIZE_FB_TENSOR_H
#define HONE_QUANTIZE_FB_TENSOR_H

#include "quantize/hessian_file.h"
#include "base/pool.h"
#include "quantize/enc/raw.h"

struct fb_source { /* the tensor */
    const struct gram_input *in;
    const struct gram_input
        *out;        /* of the products' gradients, by row; NULL: rows are independent */
    enum qtype type; /* one that feedback_can */
    enum search search;
    int64_t n, rows, n_mat; /* columns, rows per matrix, matrices */
    const float *imp;       /* [n_mat][n]; NULL: from the moments */
    /* Gives row `row` (of all matrices) as f32. Returns false when it is not finite. */
    bool (*load)(void *ctx, int64_t row, float *x);
    void *ctx;
    double tau;
    unsigned steps; /* FEEDBACK_... */
    struct pool *pool;
};
struct fb_tensor;
/* Chooses the shrinkage on held-out tokens. */
int fb_tensor_new(struct fb_tensor **out, const struct fb_source *src, struct err *e);
void fb_tensor_free(struct fb_tensor *t);
double fb_tensor_alpha(const struct fb_tensor *t); /* 1: feedback does not pay, encode plainly */
/* Returns the held-out error over that of the plain encoder, on the sampled rows; times what rows
 * can take back of each other's errors. */
double fb_tensor_gain(const struct fb_tensor *t);
int fb_tensor_matrix(struct fb_tensor *t, int64_t mat, struct err *e);
/* Returns how many rows of a matrix may be encoded side by side; the others wait for their errors.
 * fb_tensor_stage says that those from `row` on are next. */
int64_t fb_tensor_stage_rows(const struct fb_tensor *t);
void fb_tensor_stage(struct fb_tensor *t, int64_t row);
/* Encodes up to FEEDBACK_ROWS rows of the present matrix, from its row `first` on. */
void fb_tensor_rows(struct fb_tensor *t, int worker, int64_t first, const float *x, int rows,
                    uint8_t *dst, uint64_t dst_row);

#endif
