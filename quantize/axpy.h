// SPDX-License-Identifier: MIT
/* quantize/axpy.h - y += a * x, the innermost loop of error feedback. */
#ifndef HONE_QUANTIZE_AXPY_H
#define HONE_QUANTIZE_AXPY_H

#include <stdint.h>
#include <string.h>

typedef float v4f __attribute__((vector_size(16)));

/* Adds a * x to y. The elements are independent, so vector code gives the same bits as the scalar
 * loop. */
static inline void axpy(float *restrict y, const float *restrict x, float a, int64_t n) {
    if (n <= 0) return;
    const v4f va = {a, a, a, a};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        v4f x0, x1, y0, y1;
        memcpy(&x0, x + i, sizeof x0);
        memcpy(&x1, x + i + 4, sizeof x1);
        memcpy(&y0, y + i, sizeof y0);
        memcpy(&y1, y + i + 4, sizeof y1);
        y0 += va * x0;
        y1 += va * x1;
        memcpy(y + i, &y0, sizeof y0);
        memcpy(y + i + 4, &y1, sizeof y1);
    }
    for (int64_t left = n & 7; left > 0; left--, i++) y[i] += a * x[i];
}

#endif
