// SPDX-License-Identifier: MIT
/* containers/q8_0.h - encoder of f32 rows to Q8_0 blocks. Conversion writes this quantized type
 * too, so the encoder is here, below both convert/ and quantize/. Produces the same bytes as
 * llama.cpp's converter. */
#ifndef HONE_CONTAINERS_Q8_0_H
#define HONE_CONTAINERS_Q8_0_H

#include <stdint.h>

/* Encodes n weights (a multiple of 32) as n/32 blocks of 34 bytes at dst (any alignment). For each
 * block, all in f32: d = max|x| / 127, q = round(x * (1/d)) with halves away from zero, and d
 * stored as f16. A block of zeros becomes zeros, NaN becomes 0 and infinity saturates; warning
 * about these is up to the caller. */
void q8_0_row(const float *x, void *dst, int64_t n);

#endif
