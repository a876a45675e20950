// SPDX-License-Identifier: MIT
/* quantize/enc/lowbit.h - search for formats with one f16 scale per block and two to four codes. */
#ifndef HONE_QUANTIZE_ENC_LOWBIT_H
#define HONE_QUANTIZE_ENC_LOWBIT_H

#include "quantize/enc/search.h"

enum { LOW_MAX = 256 };
struct low_spec {
    enum qtype type;
    int n, lo, hi; /* weights per block; range of codes */
    bool binary;   /* code 0 is not used */
};
struct low_block {
    float d; /* exact f16 value */
    int8_t l[LOW_MAX];
};
/* Encodes n values, whole blocks. pack: writes the block found in the type's format. imp may be
 * NULL. */
void enc_low_row(const struct low_spec *s, const float *x, const float *imp, int64_t n, void *dst,
                 enum search search, void (*pack)(void *blk, const struct low_block *b));

#endif
