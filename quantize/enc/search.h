// SPDX-License-Identifier: MIT
/* quantize/enc/search.h - helpers shared by the encoders: block loading, search weights, rounding.
 *
 * Notation (docs/design/quantize.md): x weights of a block, w search weights, l codes, d scale,
 * m minimum. All searches minimize sum w*(x - x^)^2. Loops over weights are in lanes.h. */
#ifndef HONE_QUANTIZE_ENC_SEARCH_H
#define HONE_QUANTIZE_ENC_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fp.h"
#include "containers/qtype.h"
#include "quantize/enc/enc.h"

/* Functions that devices also use; they need no fused operations and no libraries. */
#ifdef __CUDACC__
#define ENC_INLINE static __device__ inline
#else
#define ENC_INLINE static inline
#endif

enum {
    ENC_SUB = 32,    /* longest run with one scale */
    ENC_NSUB = 16,   /* maximum number of sub-blocks in a super-block */
    ENC_TRIALS = 160 /* maximum number of trials in one search */
};

/* Code values of a format: all integers lo..hi, or the 16 ascending values of a table. */
struct levels {
    int lo, hi;
    const int8_t *tab; /* NULL: integers */
};
extern const int8_t enc_iq4_values[16];

/* Returns a type's weight rule for a search mode: llama.cpp's formula for the conventional search,
 * else the formula that was measured to be better. */
struct wrule enc_wrule(enum qtype t, enum search search);
/* Computes the search weights w[n] of one block. mean2 is the mean of x^2 over the rule's scope,
 * `sub` the sub-block of WP_RMS_ABS. Scales by a power of two so that the largest weight is in [1,
 * 2), and keeps all weights at 2^-30 or more, so that columns of zero importance still get good
 * codes at no cost. If all weights are zero, sets them to 1. */
void enc_weights(float *w, const float *x, const float *imp, int n, const struct wrule *r,
                 float mean2, int sub);
/* Returns the mean of x^2, computed in double, at most 1e30; n is a multiple of 8. */
float enc_mean2(const float *x, int64_t n);

/* Copies n weights, clamped to +-limit (the format's largest value at d = 65504). Returns false if
 * all are at most 2^-25; the best f16-scaled block is then all zeros. */
bool enc_load(float *dst, const float *x, int n, float limit);

/* Rounds to the nearest integer, ties to even; |x| < 2^22. */
ENC_INLINE float enc_rint(float x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23 */
    return (x + magic) - magic;
}
ENC_INLINE float enc_clampf(float x, float lo, float hi) {
    return x < lo ? lo : x > hi ? hi : x;
}
/* Clamps a value before conversion to an integer code. NaN gives lo, because the result of
 * converting NaN depends on the machine. */
ENC_INLINE float enc_clamp_code(float x, float lo, float hi) {
    return !(x > lo) ? lo : x > hi ? hi : x;
}
/* Rounds f32 to f16 bits, clamped to +-65504. enc_f16 returns the rounded value as f32. */
ENC_INLINE uint16_t enc_f16_bits(float x) {
    return fp_f32_to_f16(enc_clampf(x, -65504.0f, 65504.0f));
}
ENC_INLINE float enc_f16(float x) {
    return fp_f16_to_f32(enc_f16_bits(x));
}
/* Rounds the scale of a block like enc_f16, but never to 0 unless it is 0. With the least scale,
 * the codes or sub-scales are smaller integers, but the block keeps its weights. */
ENC_INLINE float enc_f16_scale(float x) {
    const float d = enc_f16(x), least = x < 0 ? -0x1p-24f : 0x1p-24f;
    return d == 0 && x != 0 ? least : d;
}
int enc_level_index(float level); /* index in the IQ4 table */

/* Returns the signed element of largest magnitude; in a tie, the first. */
float enc_absmax(const float *x, int n);

#endif
