// SPDX-License-Identifier: MIT
/* base/fp.c - float conversions that are too long for the header, and exp.
 *
 * Everything here is integer arithmetic or IEEE + - * on doubles, so results are bit-identical on
 * all machines (the build sets -ffp-contract=off). */
#include "base/fp.h"

/* Rounds to the nearest f16, ties to even. Values from 65520 up become infinite; subnormals are
 * rounded once. A NaN keeps its sign and the upper part of its payload, and becomes quiet, as with
 * F16C's instruction. */
uint16_t fp_f32_to_f16(float x) {
    uint32_t u = fp_bits(x), sign = (u >> 16) & 0x8000u, abs = u & 0x7fffffffu;
    if (abs > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((abs >> 13) & 0x3ffu));
    if (abs >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    /* Normal values: the exponent bias changes from 127 to 15; a carry out of the mantissa is
     * correct. */
    if (abs >= 0x38800000u) {
        uint32_t r = abs - 0x38000000u;
        return (uint16_t)(sign | ((r + 0xfffu + ((r >> 13) & 1u)) >> 13));
    }
    /* Up to 2^-25, half of the smallest subnormal, rounds to 0 (ties to even). */
    if (abs <= 0x33000000u) return (uint16_t)sign;
    uint32_t man = (abs & 0x7fffffu) | 0x800000u, shift = 126u - (abs >> 23); /* 14 to 24 */
    uint32_t half = 1u << (shift - 1), odd = (man >> shift) & 1u;
    return (uint16_t)(sign | ((man + half - 1u + odd) >> shift));
}

float fp_f8e4m3_to_f32(uint8_t b) {
    uint32_t sign = (uint32_t)(b & 0x80u) << 24, exp = (b >> 3) & 15u, man = b & 7u;
    if (exp == 15 && man == 7) return fp_from_bits(sign | 0x7fc00000u);
    if (exp) return fp_from_bits(sign | (exp + 120) << 23 | man << 20);
    return fp_from_bits(sign | fp_bits((float)man * 0x1p-9f));
}

float fp_f8e5m2_to_f32(uint8_t b) {
    return fp_f16_to_f32((uint16_t)(b << 8)); /* the byte is the upper byte of an f16 */
}

float fp_e8m0_to_f32(uint8_t b) {
    if (b == 255) return fp_from_bits(0x7fc00000u);
    /* 2^-127 is subnormal. */
    return b ? fp_from_bits((uint32_t)b << 23) : fp_from_bits(0x00400000u);
}

float fp_e2m1_to_f32(uint8_t code) {
    static const float v[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    return v[code & 15u];
}

static double pow2(int k) { /* -1022 <= k <= 1023 */
    uint64_t u = (uint64_t)(k + 1023) << 52;
    double d;
    memcpy(&d, &u, 8);
    return d;
}

/* Computes e^x in double, identically on every machine. Writes x as k ln2 + r with |r| <= ln2/2.
 * ln2 is split in two, so that k * ln2_hi is exact (the low 21 bits of ln2_hi are zero). e^r = 1 +
 * r + r^2 p(r) is the Taylor series up to r^13, with an error below 5e-18. c is the rounding error
 * of r. */
double fp_exp(double x) {
    static const double inv_ln2 = 0x1.71547652b82fep+0;
    static const double ln2_hi = 0x1.62e42feep-1, ln2_lo = 0x1.a39ef35793c76p-33;
    static const double coef[] = {1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0,
                                  1.0 / 3628800.0,    1.0 / 362880.0,    1.0 / 40320.0,
                                  1.0 / 5040.0,       1.0 / 720.0,       1.0 / 120.0,
                                  1.0 / 24.0,         1.0 / 6.0,         1.0 / 2.0};
    if (x != x) return x;
    if (x > 709.8) return pow2(1023) * 2.0; /* infinity */
    if (x < -745.2) return 0.0;
    double t = x * inv_ln2;
    int k = (int)(t < 0.0 ? t - 0.5 : t + 0.5);
    double hi = x - (double)k * ln2_hi, lo = (double)k * ln2_lo;
    double r = hi - lo, c = (hi - r) - lo;
    double p = coef[0];
    for (int i = 1; i < (int)(sizeof coef / sizeof coef[0]); i++) p = p * r + coef[i];
    double y = 1.0 + (r + (p * r * r + c));
    /* Scale in two steps, because the result may be subnormal or just below overflow. */
    int half = k / 2;
    return y * pow2(half) * pow2(k - half);
}
