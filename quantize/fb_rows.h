// SPDX-License-Identifier: MIT
/* quantize/fb_rows.h - error feedback from row to row of a matrix.
 *
 * Second moments of gradients, G = E[g g^T] with g the gradient of the model's loss by a product's
 * output, say which errors of different rows add up and which cancel. With the inputs' moments H
 * the loss grows by tr(G E H E^T) / 2 for errors E (YAQA, Tseng et al. 2025), so that the rows
 * still to be encoded can take back what the encoded ones did. Rows go in stages. Those of a stage
 * know the errors of earlier stages only, so that threads can share them. */
#ifndef HONE_QUANTIZE_FB_ROWS_H
#define HONE_QUANTIZE_FB_ROWS_H

#include "quantize/factor.h"

struct fb_rows;
/* Makes the feedback for matrices of n columns. A row of a matrix is a column of `out` (borrowed),
 * which has gradients for each matrix or the same for all. */
int fb_rows_new(struct fb_rows **r, const struct gram_input *out, int64_t n, struct err *e);
void fb_rows_free(struct fb_rows *r);
/* Returns the number of rows of a stage, a multiple of FEEDBACK_ROWS. No stage goes over the end of
 * a block of the moments. */
int64_t fb_rows_stage(const struct fb_rows *r);
/* Begins a matrix. ERR_DATA for moments that are not finite or not positive. */
int fb_rows_matrix(struct fb_rows *r, int64_t mat, struct pool *pool, struct err *e);
/* Returns the least share of the loss that feedback between the rows of the present matrix can
 * leave of what errors without any would cost. */
double fb_rows_share(const struct fb_rows *r);
/* Says that the rows from `row` on are the next stage. */
void fb_rows_begin(struct fb_rows *r, int64_t row);
/* Adds to a row's weights x [n] what it should aim at besides, given the errors before its stage.
 */
void fb_rows_aim(const struct fb_rows *r, int64_t row, float *x);
/* Keeps the error of a row of weights x [n] that was encoded to y [n]. */
void fb_rows_keep(struct fb_rows *r, int64_t row, const float *x, const float *y);

#endif
