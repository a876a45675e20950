// SPDX-License-Identifier: MIT
/* quantize/feedback.h - rows to blocks with error feedback: each weight's rounding error moves the
 * targets of the columns after it, so that the error of the product falls instead of that of the
 * weights. */
#ifndef HONE_QUANTIZE_FEEDBACK_H
#define HONE_QUANTIZE_FEEDBACK_H

#include "quantize/enc/open.h"
#include "quantize/factor.h"

enum { FEEDBACK_ROWS = 8 };  /* rows that go together, sharing reads of the factor */
enum {                       /* steps after the feedback pass */
       FEEDBACK_CODES = 1,   /* coordinate descent on codes */
       FEEDBACK_SCALES = 2,  /* least squares of d and m per block */
       FEEDBACK_INTS = 4,    /* neighbours of the integer sub-scales */
       FEEDBACK_BALANCE = 8, /* enc_row_balanced; also without feedback */
       FEEDBACK_ALL = 15
};
struct feedback {
    const struct enc_blocks *eb;
    const struct factor *f;
    const float *imp, *s; /* [n] column weights and their square roots, from feedback_weights */
    enum search search;
    unsigned steps;
    int rounds; /* of the first three */
};
struct feedback_work;
int feedback_work_new(struct feedback_work **out, int64_t n, struct err *e);
void feedback_work_free(struct feedback_work *w);
/* rows <= FEEDBACK_ROWS; x [rows][n]; dst: rows of dst_row bytes. */
void feedback_rows(const struct feedback *fb, struct feedback_work *w, const float *x, int rows,
                   uint8_t *dst, uint64_t dst_row);
/* sum over rows of (x - y) S R S (x - y)^T. */
double feedback_error(const struct factor *f, const float *s, const float *x, const float *y,
                      int64_t rows);
/* From the importance of n columns: w = imp + lambda*mean, s its root; neither zero nor huge. */
void feedback_weights(float *w, float *s, const float *imp, int64_t n, double lambda);

#endif
