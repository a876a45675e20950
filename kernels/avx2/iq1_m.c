// SPDX-License-Identifier: MIT
/* kernels/avx2/iq1_m.c - IQ1_M by AVX2; loops in iq.h, layout in kernels/ref/iq1_m.c. */
#include "kernels/avx2/iq.h"
#include "kernels/codebook.h"
#include "kernels/ops.h"

INLINE uint16_t super(const void *w) {
    return kern_iq1_m_d(w);
}
/* Eight levels: low index bits, and a nibble of high bits and shift (a grid entry has 11 bits, the
 * second half of the table is shifted down). */
INLINE int64_t eight(const struct kern_grid *g, unsigned low, unsigned high) {
    return load_i64(g->iq1[low | (high & 15) << 8]);
}

INLINE struct iq_chunk chunk(const void *w, const struct kern_grid *g, int c) {
    const struct blk_IQ1_M *x = w;
    const uint8_t *q = x->qs + 4 * c, *h = x->qh + 2 * c;
    const int s = load_u16(x->scales + 2 * (c / 2)) >> (6 * (c % 2));
    return iq_signed(_mm256_setr_epi64x(eight(g, q[0], h[0]), eight(g, q[1], h[0] >> 4),
                                        eight(g, q[2], h[1]), eight(g, q[3], h[1] >> 4)),
                     2 * (s & 7) + 1, 2 * (s >> 3 & 7) + 1);
}

static void decode(const void *restrict blk, float *restrict dst, int64_t n) {
    iq_decode(blk, sizeof(struct blk_IQ1_M), 0.125f, dst, n, super, chunk);
}

static float dot(const void *restrict w, const void *restrict a, int64_t n) {
    return iq_dot(w, sizeof(struct blk_IQ1_M), 0.125f, a, n, super, chunk);
}

const struct kern_ops kern_avx2_IQ1_M = {.decode = decode, .dot = dot};
