// SPDX-License-Identifier: MIT
/* kernels/avx2/iq1_s.c - IQ1_S by AVX2; loops in iq.h, layout in kernels/ref/iq1_s.c. */
#include "kernels/avx2/iq.h"
#include "kernels/ops.h"

INLINE struct iq_chunk chunk(const void *w, const struct kern_grid *g, int c) {
    const struct blk_IQ1_S *x = w;
    const uint8_t *q = x->qs + 4 * c;
    const unsigned h = x->qh[c];
    const int8_t(*v)[8] = g->iq1 + (h >> 15 ? KERN_IQ1 : 0);
    const int s = (int)(2 * (h >> 12 & 7) + 1);
    return iq_signed(_mm256_setr_epi64x(load_i64(v[q[0] | (h << 8 & 0x700)]),
                                        load_i64(v[q[1] | (h << 5 & 0x700)]),
                                        load_i64(v[q[2] | (h << 2 & 0x700)]),
                                        load_i64(v[q[3] | (h >> 1 & 0x700)])),
                     s, s);
}

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    iq_decode(blk, sizeof(struct blk_IQ1_S), 0.125f, dst, n, iq_first, chunk);
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return iq_dot(w, sizeof(struct blk_IQ1_S), 0.125f, a, n, iq_first, chunk);
}

const struct kern_ops kern_avx2_IQ1_S = {.decode = decode, .dot = dot};
