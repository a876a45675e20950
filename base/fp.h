// SPDX-License-Identifier: MIT
/* base/fp.h - exact scalar conversions between small floats and f32, and the few math functions
 * whose results must be the same on every machine. Rounding is to nearest, ties to even, unless
 * stated otherwise. */
#ifndef HONE_BASE_FP_H
#define HONE_BASE_FP_H

#include <stdint.h>
#include <string.h>

static inline uint32_t fp_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
static inline float fp_from_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* Converts bf16, which is the upper half of an f32. */
static inline float fp_bf16_to_f32(uint16_t h) {
    return fp_from_bits((uint32_t)h << 16);
}
/* Rounds to bf16, ties to even. NaN stays NaN: its quiet bit (64) is set, as in ggml. */
static inline uint16_t fp_f32_to_bf16(float x) {
    uint32_t u = fp_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 64u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/* Converts an IEEE half, including subnormals, exactly with integer operations. */
static inline float fp_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = (h >> 10) & 31u, man = h & 1023u;
    if (exp == 31) return fp_from_bits(sign | 0x7f800000u | man << 13);
    if (exp) return fp_from_bits(sign | (exp + 112) << 23 | man << 13);
    float v = (float)man * 0x1p-24f; /* zero and subnormals: exact */
    return fp_from_bits(sign | fp_bits(v));
}
uint16_t fp_f32_to_f16(float x);

float fp_f8e4m3_to_f32(uint8_t b);  /* e4m3fn: bias 7, no infinity, 0x7f/0xff NaN */
float fp_f8e5m2_to_f32(uint8_t b);  /* IEEE-like, bias 15 */
float fp_e8m0_to_f32(uint8_t b);    /* 2^(b-127); 255 is NaN */
float fp_e2m1_to_f32(uint8_t code); /* codes 0..15: 0 .5 1 1.5 2 3 4 6 and negatives */

/* Return exp and log in double precision, well within half an f32 ulp and identical on every
 * machine: only + - * / and exact scaling are used, so results do not depend on libm. */
double fp_exp(double x);

#endif
