// SPDX-License-Identifier: MIT
/* kernels/avx2/act.c - AVX2 version of kernels/ref/act.c, which quantizes activations. The bytes
 * are the same: floats are only multiplied and converted (to nearest, ties to even), and sums are
 * integers. */
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "kernels/avx2/avx2.h"
#include "kernels/ops.h"

INLINE __m256 vabs(__m256 v) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}
INLINE float hmax(__m256 v) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}
INLINE float largest(const float *x, int n) {
    __m256 m = _mm256_setzero_ps();
    for (int i = 0; i < n; i += 8) m = _mm256_max_ps(m, vabs(_mm256_loadu_ps(x + i)));
    return hmax(m);
}
INLINE int hsum_i32(__m256i v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_hadd_epi32(s, s);
    return _mm_cvtsi128_si32(_mm_hadd_epi32(s, s));
}

/* Returns 32 codes of x * inv, at most 127 in magnitude. */
INLINE __m256i codes(const float *x, float inv) {
    const __m256 s = _mm256_set1_ps(inv);
    __m256i c[4];
    UNROLL for (int i = 0; i < 4; i++) c[i] =
        _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), s));
    const __m256i b =
        _mm256_packs_epi16(_mm256_packs_epi32(c[0], c[1]), _mm256_packs_epi32(c[2], c[3]));
    return _mm256_permutevar8x32_epi32(b, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
INLINE void store(void *p, __m256i v) {
    __m256i_u *d = p;
    _mm256_storeu_si256(d, v);
}
/* Returns the sums of adjacent pairs in 16 lanes. */
INLINE __m256i sums_of_2(__m256i s8) {
    return _mm256_maddubs_epi16(_mm256_set1_epi8(1), s8);
}

/* Rounds 32 values: stores their codes, stores the codes' sum in *sum unless NULL, and returns
 * d. */
INLINE float quant_32(const float *x, int8_t *qs, int *sum) {
    const float max = largest(x, 32), d = max / 127.0f, inv = d >= 0x1p-126f ? 127.0f / max : 0;
    const __m256i c = codes(x, inv);
    store(qs, c);
    if (sum) *sum = hsum_i32(pairs(sums_of_2(c)));
    return d;
}
INLINE uint16_t to_half(float x) {
    return (uint16_t)_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT);
}

/* Rounds n activations to Q8_0 blocks. */
static void quant_q8_0(const float *x, struct blk_Q8_0 *y, int64_t n) {
    for (int64_t b = 0; b < n / 32; b++, x += 32, y++) y->d = to_half(quant_32(x, y->qs, NULL));
}

/* Rounds n activations to Q8_1 blocks, with their sums. */
static void quant_q8_1(const float *x, struct blk_Q8_1 *y, int64_t n) {
    for (int64_t b = 0; b < n / 32; b++, x += 32, y++) {
        int sum;
        const float d = quant_32(x, y->qs, &sum);
        y->d = to_half(d);
        y->s = to_half((float)sum * d);
    }
}

/* Returns the first value whose magnitude is `top`. */
static float first_of(const float *x, float top) {
    const __m256 t = _mm256_set1_ps(top);
    for (int i = 0; i < QK; i += 8) {
        const __m256 eq = _mm256_cmp_ps(vabs(_mm256_loadu_ps(x + i)), t, _CMP_EQ_OQ);
        const int m = _mm256_movemask_ps(eq);
        if (m) return x[i + __builtin_ctz((unsigned)m)];
    }
    return top;
}

/* Rounds n activations to Q8_K blocks, with sums of 16. */
static void quant_q8_k(const float *x, struct blk_Q8_K *y, int64_t n) {
    for (int64_t b = 0; b < n / QK; b++, x += QK, y++) {
        const float top = largest(x, QK), inv = -127.0f / first_of(x, top);
        if (top == 0 || isinf(inv)) {
            memset(y, 0, sizeof *y);
            continue;
        }
        for (int k = 0; k < QK / 32; k++) {
            const __m256i c = codes(x + 32 * k, inv);
            store(y->qs + 32 * k, c);
            /* Sums of 4; two rounds of hadd make sums of 16. */
            __m256i s = pairs(sums_of_2(c));
            s = _mm256_hadd_epi32(s, s);
            s = _mm256_hadd_epi32(s, s);
            y->bsums[2 * k] = (int16_t)_mm256_extract_epi32(s, 0);
            y->bsums[2 * k + 1] = (int16_t)_mm256_extract_epi32(s, 4);
        }
        y->d = 1.0f / inv;
    }
}

#include "kernels/ref/act_quant.h"

void kern_avx2_act(struct kern *k) {
    k->act_quant = act_quant;
}
