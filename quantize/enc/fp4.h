// SPDX-License-Identifier: MIT
/* quantize/enc/fp4.h - the sixteen E2M1 levels, doubled (MXFP4, NVFP4): nearest code, and error of
 * a run. */
#ifndef HONE_QUANTIZE_ENC_FP4_H
#define HONE_QUANTIZE_ENC_FP4_H

#include <math.h>

#include "kernels/codebook.h"
#include "quantize/enc/search.h"

/* Returns the code of the level nearest to v, which has already been divided by the scale.
 * Midpoints round to the smaller level. */
static inline uint8_t fp4_code(float v) {
    static const float mid[7] = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10};
    const float a = fabsf(v);
    int q = 0;
    for (int i = 0; i < 7; i++) q += a > mid[i];
    return (uint8_t)(q && v < 0 ? q + 8 : q);
}
/* Returns the sum of w*(x - d*level)^2 with the nearest levels. */
static inline double fp4_error(const float *x, const float *w, int n, float d) {
    const float inv = d > 0x1p-126f ? 1.0f / d : 0;
    double e = 0;
    for (int i = 0; i < n; i++) {
        double diff = (double)(d * (float)kern_fp4_level[fp4_code(x[i] * inv)]) - (double)x[i];
        e += (double)w[i] * diff * diff;
    }
    return e;
}

/* Layout of a type's blocks: n weights in runs of `sub`, each with a scale byte. The functions give
 * the value of a scale byte and convert blocks to and from their unpacked form. Codes are level
 * numbers, in the order of the weights. */
struct enc_fp4 {
    int n, sub, scale_max; /* scale_max: largest scale byte used */
    float (*step)(uint8_t scale);
    void (*unpack)(const void *blk, uint8_t *scale, uint8_t *code);
    void (*pack)(void *blk, const uint8_t *scale, const uint8_t *code);
};

#endif
