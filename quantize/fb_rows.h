// SPDX-License-Identifier: MIT
/* quantize/fb_rows.h - error feedback between the rows of a matrix.
 *
 * The second moments of gradients, G = E[g g^T] with g the gradient of the loss with respect to
 * a product's output, show which rows' errors add up and which cancel. With the inputs' moments
 * H, errors E increase the loss by tr(G E H E^T) / 2 (YAQA, Tseng et al. 2025), so later rows
 * can compensate for the errors of earlier ones. Rows are encoded in stages: a row sees only the
 * errors of earlier stages, so threads can share a stage. */
#ifndef HONE_QUANTIZE_FB_ROWS_H
#define HONE_QUANTIZE_FB_ROWS_H

#include "quantize/factors.h"

struct fb_rows;
/* Creates the feedback for matrices of n columns. A column of `out` (borrowed) is a row of a
 * matrix; `out` has gradients for each matrix or one set for all. `factors` is also borrowed. */
int fb_rows_new(struct fb_rows **r, const struct gram_input *out, int64_t n,
                struct factors *factors, struct err *e);
void fb_rows_free(struct fb_rows *r);
/* Returns the number of rows in a stage, a multiple of FEEDBACK_ROWS. No stage crosses the end
 * of a block of moments. */
int64_t fb_rows_stage(const struct fb_rows *r);
/* Begins a matrix. Returns ERR_DATA if the moments are not finite or not positive. */
int fb_rows_matrix(struct fb_rows *r, int64_t mat, struct pool *pool, struct err *e);
/* Returns the smallest fraction of the loss that row-to-row feedback can leave for the current
 * matrix (1: no gain). */
double fb_rows_share(const struct fb_rows *r);
/* Begins the stage whose first row is `row`. */
void fb_rows_begin(struct fb_rows *r, int64_t row);
/* Adds corrections for the errors of earlier stages to the weights x [rows][n] of rows of the
 * current stage, starting at row `row`. */
void fb_rows_aim(const struct fb_rows *r, int64_t row, int rows, float *x);
/* Records the error of a row x [n] that was encoded as y [n]. */
void fb_rows_keep(struct fb_rows *r, int64_t row, const float *x, const float *y);

#endif
