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

/* Functions that return the same bits on every machine, unlike the C library's. Results that reach
 * a file are computed with these (tests/lint/math.sh). Errors are at most 1.5 ulp of a double, with
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
/* The same for floats, almost always correctly rounded. Files compiled with -ffp-contract=fast must
 * not call the inline ones. */
/* Returns e^x = 2^k e^r with |r| <= ln2 / 2, where e^r is the Taylor series up to r^11 (error
 * 6e-15), summed in pairs, because a chain of eleven products would take twice as long. */
static inline float fp_expf(float x) {
    const double t = x < -104 ? -104.0 : x > 89 ? 89.0 : (double)x; /* 0 and infinity as floats */
    const double whole = 0x1.8p52, k = t * 0x1.71547652b82fep+0 + whole; /* its low bits are k */
    const double r = t - (k - whole) * 0x1.62e42fefa39efp-1, r2 = r * r, r4 = r2 * r2;
    const double a = 1 + r + r2 * (1 / 2.0 + r * (1 / 6.0));
    const double b = 1 / 24.0 + r * (1 / 120.0) + r2 * (1 / 720.0 + r * (1 / 5040.0));
    const double c = 1 / 40320.0 + r * (1 / 362880.0) + r2 * (1 / 3628800.0 + r * (1 / 39916800.0));
    uint64_t bits;
    memcpy(&bits, &k, 8);
    bits = (bits + 1023) << 52;
    double by;
    memcpy(&by, &bits, 8);
    return (float)((a + r4 * (b + r4 * c)) * by);
}
static inline float fp_tanhf(float x) {
    return (float)fp_tanh((double)x);
}
static inline float fp_erff(float x) {
    return (float)fp_erf((double)x);
}
static inline float fp_sigmoidf(float x) {
    return 1 / (1 + fp_expf(-x));
}
float fp_softplusf(float x); /* ln(1 + e^x) */

#endif
