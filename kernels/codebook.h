// SPDX-License-Identifier: MIT
/* kernels/codebook.h - level tables and scale bytes of the 4-bit float and table formats
 * (docs/formats/iq4.md). ISA folders include it, so it has only static data and static inline
 * functions. */
#ifndef HONE_KERNELS_CODEBOOK_H
#define HONE_KERNELS_CODEBOOK_H

#include <stdint.h>

#include "base/fp.h"
#include "containers/qtype.h"

/* Levels of IQ4_NL and IQ4_XS, deliberately asymmetric: a block's largest weight gets -127. */
static const int8_t kern_iq4_level[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
/* The same plus 128, as unsigned bytes. */
static const int8_t kern_iq4_level_up[16] = {1,    24,   45,   63,  79,  93,  106, 118,
                                             -127, -115, -103, -90, -75, -59, -39, -15};
/* Levels of MXFP4 and NVFP4, E2M1 times two; then the same plus 12. */
static const int8_t kern_fp4_level[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static const int8_t kern_fp4_level_up[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                             12, 11, 10, 9,  8,  6,  4,  0};

/* Returns 2^(e-128), the scale for the doubled levels; it is subnormal if e is 0 or 1. */
static inline float kern_e8m0_half(uint8_t e) {
    return fp_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* Returns half the value of an unsigned E4M3 byte. Bytes with the sign bit set follow the same
 * formula; 0x7f gives 0. */
static inline float kern_ue4m3_half(uint8_t v) {
    const uint32_t exp = (v >> 3) & 15u, man = v & 7u;
    if (v == 0x7f) return 0;
    if (exp == 0) return (float)man * 0x1p-10f;
    return fp_from_bits((exp + 119) << 23 | man << 20);
}

/* Returns the super scale of IQ1_M as half-precision bits: the top nibbles of its four scale
 * words. */
static inline uint16_t kern_iq1_m_d(const struct blk_IQ1_M *x) {
    return (uint16_t)(x->scales[1] >> 4 | (x->scales[3] & 0xf0) | (x->scales[5] & 0xf0) << 4 |
                      (x->scales[7] & 0xf0) << 8);
}
static inline void kern_iq1_m_set_d(struct blk_IQ1_M *x, uint16_t bits) {
    for (int i = 0; i < 4; i++)
        x->scales[2 * i + 1] = (uint8_t)((x->scales[2 * i + 1] & 15) | (bits >> (4 * i) & 15) << 4);
}

#endif
