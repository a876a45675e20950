// SPDX-License-Identifier: MIT
/* kernels/avx2/iq3_xxs.c - IQ3_XXS by AVX2; loops in iq.h, layout in kernels/ref/iq3_xxs.c. */
#include "kernels/avx2/iq.h"
#include "kernels/ops.h"

INLINE struct iq_chunk chunk(const void *w, const struct kern_grid *g, int c) {
    const struct blk_IQ3_XXS *x = w;
    const uint8_t *q = x->qs + 8 * c;
    const uint32_t u = load_u32(x->qs + 64 + 4 * c);
    const __m256i level = _mm256_setr_epi32(load_i32(g->iq3_xxs[q[0]]), load_i32(g->iq3_xxs[q[1]]),
                                            load_i32(g->iq3_xxs[q[2]]), load_i32(g->iq3_xxs[q[3]]),
                                            load_i32(g->iq3_xxs[q[4]]), load_i32(g->iq3_xxs[q[5]]),
                                            load_i32(g->iq3_xxs[q[6]]), load_i32(g->iq3_xxs[q[7]]));
    const int s = (int)(2 * (u >> 28) + 1);
    return (struct iq_chunk){level, iq_sign7(g, u), {s, s}};
}

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    iq_decode(blk, sizeof(struct blk_IQ3_XXS), 0.25f, dst, n, iq_first, chunk);
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return iq_dot(w, sizeof(struct blk_IQ3_XXS), 0.25f, a, n, iq_first, chunk);
}

const struct kern_ops kern_avx2_IQ3_XXS = {.decode = decode, .dot = dot};
