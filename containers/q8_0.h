// SPDX-License-Identifier: MIT
/* containers/q8_0.h - f32 rows to Q8_0 blocks: the one quantized type that conversion writes too,
 * so it lives below both convert/ and quantize/. Bytes equal the field's converter's. */
#ifndef HONE_CONTAINERS_Q8_0_H
#define HONE_CONTAINERS_Q8_0_H

#include <stdint.h>

/* Encodes n weights (a multiple of 32) to n/32 blocks of 34 bytes at dst (any address). For each
 * block, all in f32: d = max|x| / 127, q = round(x * (1/d)) with halves away from zero, and d is
 * stored as f16. A block of zeros becomes zeros. NaN becomes 0 and infinity saturates; the
 * caller warns. */
void q8_0_row(const float *x, void *dst, int64_t n);

#endif
