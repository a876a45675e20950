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

/* Functions with the same bits on every machine, which the C library's do not have. What reaches a
 * file is computed with these (tests/lint/math.sh). Errors are at most 1.5 ulp of a double, with
 * these exceptions: fp_pow 1.5 + |y ln x| / 10 ulp, fp_log1p 2.5 ulp, fp_erf 1e-14 and fp_tanh
 * 1e-12 of the result. */
double fp_exp(double x);
double fp_log(double x);
double fp_log1p(double x);         /* ln(1 + x) */
double fp_pow(double x, double y); /* x >= 0 */
double fp_sin(double x);
double fp_cos(double x);
double fp_tanh(double x);
double fp_erf(double x);
/* The same for floats; nearly always rounded correctly. fp_expf is the fastest. */
float fp_expf(float x);
static inline float fp_tanhf(float x) {
    return (float)fp_tanh((double)x);
}
static inline float fp_erff(float x) {
    return (float)fp_erf((double)x);
}
static inline float fp_sigmoidf(float x) {
    return 1 / (1 + fp_expf(-x));
}
/* Returns ln(1 + e^x). */
static inline float fp_softplusf(float x) {
    return x > 20.0f ? x : (float)fp_log1p(fp_exp((double)x));
}

#endif
