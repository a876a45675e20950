// SPDX-License-Identifier: MIT
/* quantize/feedback.h - row encoding with error feedback: each weight's rounding error shifts
 * the targets of later columns, which minimizes the error of the product rather than of the
 * weights. */
#ifndef HONE_QUANTIZE_FEEDBACK_H
#define HONE_QUANTIZE_FEEDBACK_H

#include "quantize/enc/fb.h"
#include "quantize/enc/gridq.h"
#include "quantize/enc/raw.h"
#include "quantize/factor.h"

enum {
    FEEDBACK_ROWS = 8, /* stages of rows (fb_rows.h) are multiples of this */
    FEEDBACK_GROUP =
        64 /* maximum number of rows encoded together, so that they share reads of the factor */
};
struct fb_kind;
/* How to encode rows. feedback_init sets the first part, the caller sets the rest. */
struct feedback {
    enum qtype type;
    enum search search;
    const struct fb_kind *kind;
    const struct enc *enc;
    struct grid_how grid;             /* grid types only */
    const struct grid_around *around; /* grid types only */

    const struct factor *f;
    const float *imp,
        *s;         /* [n] column weights and their square roots, computed by feedback_weights */
    unsigned steps; /* FEEDBACK_... flags */
    int rounds;     /* rounds of the first three steps */
};
/* Returns whether a type supports error feedback. */
bool feedback_can(enum qtype t);
/* Initializes *fb for a type for which feedback_can returns true. */
void feedback_init(struct feedback *fb, enum qtype type, enum search search);

struct feedback_work;
/* Returns how many rows to encode together when `rows` rows are shared among threads. */
int64_t feedback_group(int64_t rows, int threads);
/* Allocates one thread's buffers, for FEEDBACK_GROUP rows of n weights: about 18 bytes per
 * weight. */
int feedback_work_new(struct feedback_work **out, enum qtype type, int64_t n, struct err *e);
void feedback_work_free(struct feedback_work *w);
/* Encodes up to FEEDBACK_GROUP rows x [rows][n] to dst, in rows of dst_row bytes. */
void feedback_rows(const struct feedback *fb, struct feedback_work *w, const float *x, int rows,
                   uint8_t *dst, uint64_t dst_row);
/* Returns the sum over rows of (x - y) S R S (x - y)^T. */
double feedback_error(const struct factor *f, const float *s, const float *x, const float *y,
                      int64_t rows);
/* Computes, from the importance of n columns, w = imp + lambda*mean and its root s; both are kept
 * away from zero and overflow. */
void feedback_weights(float *w, float *s, const float *imp, int64_t n, double lambda);

#endif
