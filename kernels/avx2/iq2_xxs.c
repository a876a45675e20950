// SPDX-License-Identifier: MIT
/* kernels/avx2/iq2_xxs.c - IQ2_XXS by AVX2; loops in iq.h, layout in kernels/ref/iq2_xxs.c. */
#include "kernels/avx2/iq.h"
#include "kernels/ops.h"

INLINE struct iq_chunk chunk(const void *w, const struct kern_grid *g, int c) {
    const struct blk_IQ2_XXS *x = w;
    const uint8_t *p = (const uint8_t *)x->qs + 8 * c;
    const uint32_t u = load_u32(p + 4);
    const __m256i level =
        _mm256_setr_epi64x(load_i64(g->iq2_xxs[p[0]]), load_i64(g->iq2_xxs[p[1]]),
                           load_i64(g->iq2_xxs[p[2]]), load_i64(g->iq2_xxs[p[3]]));
    const int s = (int)(2 * (u >> 28) + 1);
    return (struct iq_chunk){level, iq_sign7(g, u), {s, s}};
}

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    iq_decode(blk, sizeof(struct blk_IQ2_XXS), 0.125f, dst, n, iq_first, chunk);
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return iq_dot(w, sizeof(struct blk_IQ2_XXS), 0.125f, a, n, iq_first, chunk);
}

const struct kern_ops kern_avx2_IQ2_XXS = {.decode = decode, .dot = dot};
