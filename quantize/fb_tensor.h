// SPDX-License-Identifier: MIT
/* quantize/fb_tensor.h - error feedback for one tensor: the factor of each matrix, and how much to
 * shrink the measured correlation. */
#ifndef HONE_QUANTIZE_FB_TENSOR_H
#define HONE_QUANTIZE_FB_TENSOR_H

#include "quantize/factors.h"
#include "base/pool.h"
#include "quantize/enc/raw.h"
#include "quantize/qdev.h"

struct fb_source { /* the tensor to encode */
    const struct gram_input *in;
    const struct gram_input *out; /* gradients of the outputs, by row; NULL: rows are independent */
    enum qtype type;              /* a type for which feedback_can is true */
    enum search search;
    int64_t n, rows, n_mat; /* columns, rows per matrix, matrices */
    const float *imp;       /* [n_mat][n]; NULL: taken from the moments */
    /* Decodes row `row`, counted over all matrices, to f32. Returns false if it is not finite. */
    bool (*load)(void *ctx, int64_t row, float *x);
    void *ctx;
    double tau;
    unsigned steps; /* FEEDBACK_... flags */
    struct pool *pool;
    struct factors *factors; /* shared with other tensors and types; NULL: the tensor's own */
};
struct fb_tensor;
/* Creates the feedback of a tensor and chooses its shrinkage on held-out tokens. */
int fb_tensor_new(struct fb_tensor **out, const struct fb_source *src, struct err *e);
void fb_tensor_free(struct fb_tensor *t);
double fb_tensor_alpha(
    const struct fb_tensor *t); /* 1: feedback does not reduce the error; encode without it */
/* Returns the held-out error on sampled rows, relative to that of the plain encoder, times the
 * fraction of the loss that row-to-row feedback can leave. */
double fb_tensor_gain(const struct fb_tensor *t);
/* Lets a device encode rows, if it can and stages have enough rows for it to be faster; call before
 * the first matrix. q may be NULL. */
int fb_tensor_device(struct fb_tensor *t, struct qdev *q, struct err *e);
/* Returns whether a device encodes rows. */
bool fb_tensor_has_device(const struct fb_tensor *t);
/* Stops using the device: the CPU encodes all further rows. */
void fb_tensor_give_up(struct fb_tensor *t);
/* Prepares the factors of matrix number `mat`; call before its rows. */
int fb_tensor_matrix(struct fb_tensor *t, int64_t mat, struct err *e);
/* Returns how many rows of a matrix can be encoded concurrently; later rows need the errors of
 * these. fb_tensor_stage begins the stage that starts at `row`. */
int64_t fb_tensor_stage_rows(const struct fb_tensor *t);
/* Begins a stage of rows that share feedback, with `row` as its first row. */
void fb_tensor_stage(struct fb_tensor *t, int64_t row);
/* Encodes up to FEEDBACK_GROUP rows of the current matrix, starting at its row `first`. */
void fb_tensor_rows(struct fb_tensor *t, int worker, int64_t first, const float *x, int rows,
                    uint8_t *dst, uint64_t dst_row);

/* ---- on a device ----------------------------------------------------------------------------- */
/* Order: targets, aim, encode, keep. `first` is the index of row x in its matrix. */

/* Returns how many rows the device encodes at once. */
int64_t fb_tensor_most(const struct fb_tensor *t);
/* Returns memory for the weights of fb_tensor_most rows, which the caller decodes there. */
float *fb_tensor_targets(struct fb_tensor *t);
/* Shifts up to FEEDBACK_GROUP rows of targets for the errors of earlier rows and for drift. */
void fb_tensor_aim(struct fb_tensor *t, int worker, int64_t first, float *x, int rows);
/* Encodes the first `rows` targets to dst, without padding between rows. */
int fb_tensor_encode(struct fb_tensor *t, int64_t rows, uint8_t *dst, struct err *e);
/* Returns whether later rows need fb_tensor_keep. */
bool fb_tensor_keeps(const struct fb_tensor *t);
/* Records the errors of weights x, which were encoded at dst, for later rows. */
void fb_tensor_keep(struct fb_tensor *t, int worker, int64_t first, const float *x, int rows,
                    const uint8_t *dst, uint64_t dst_row);

#endif
