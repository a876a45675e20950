// SPDX-License-Identifier: MIT
/* quantize/enc/fb.h - error feedback as the lanes (lanes_fb.h) see it: the moments of a row's
 * columns, and the state of one row. CPU and device share these types. */
#ifndef HONE_QUANTIZE_ENC_FB_H
#define HONE_QUANTIZE_ENC_FB_H

#include <math.h>

#include "quantize/enc/search.h"

/* Columns that errors and changes reach at once; other columns get them later, in a product. */
enum { FB_WINDOW = 256 };

/* Steps after the feedback pass. */
enum {
    FEEDBACK_CODES = 1,      /* coordinate descent on the codes */
    FEEDBACK_SCALES = 2,     /* least squares of d and m per block */
    FEEDBACK_INTS = 4,       /* neighboring integer sub-scales */
    FEEDBACK_BALANCE = 8,    /* as in enc_row_balanced; also works without feedback */
    FEEDBACK_GRADIENTS = 16, /* block by block: moments weighted by gradients, and of gradients */
    FEEDBACK_ALL = 15
};

/* Stages of fb_weigh in a window: with the columns before it, with its own, after descent in it. */
enum fb_stage { FB_BEFORE, FB_WITHIN, FB_AFTER };

/* Moments of n columns: the fields of struct factor (../factor.h), the column weights and their
 * square roots. */
struct fb_cols {
    int64_t n, block;
    const float *r, *m; /* [n][block] */
    const float *diag, *imp, *s;
};

/* A row being encoded. u is the scaled error of each weight, s * (x - x^). */
struct fb_row {
    const float *x; /* [n] weights */
    float *u;       /* [n] */
    float *acc;     /* [n] sum of earlier columns' errors, which shifts the target, times s */
    float *g;       /* [n] R u for the window's columns that are still to be visited */
    int64_t w0, w1; /* the window's columns, in one block of R */
    float *v;       /* [n] s * x, for the balance */
    float *p;       /* [FB_WINDOW] v R of the columns up to the window's end, likewise */
};

/* Returns the target of a weight. Falls back to the weight itself if huge values make the target
 * unusable. */
ENC_INLINE float fb_target(float x, float acc, float s) {
    const float t = x + acc / s;
    return fabsf(t) < 1e30f ? t : x;
}
/* Returns row c0 + i of R, starting at column c0. No block of weights crosses a block boundary of
 * R. */
ENC_INLINE const float *fb_corr_of(const struct fb_cols *f, int64_t c0, int i) {
    return f->r + (c0 + i) * f->block + c0 % f->block;
}

#endif
