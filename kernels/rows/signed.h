// SPDX-License-Identifier: MIT
/* kernels/rows/signed.h - products of a packed group (kernels/pack.h) of a format with signed
 * codes. Included once by a type's file, which has included an ISA's lanes.h and defined: BLOCK
 * (bytes), SIZE (weights of a block: 32 or 256) struct head, head(w, h)   what a block's codes are
 * multiplied by code(w, k, j)             codes 32k + 4j .. 4j + 3 of every row, signed scaled(h,
 * k, s, a, i, acc) acc + scale of codes 32k .. 32k + 31 times s, their products with the
 * activations 32i .. 32i + 31 of a A token's sums are the same operations in the same order
 * whatever n is. */
#include "kernels/rows/rows.h"

enum { CHUNKS = SIZE / 32, PER_ACT = 256 / SIZE };

INLINE void block(int n, const uint8_t *w, const struct kern_act *a, int64_t lda, int i, fv *acc) {
    struct head h;
    head(w, &h);
    UNROLL for (int k = 0; k < CHUNKS; k++) {
        iv s[TILE];
        UNROLL for (int t = 0; t < n; t++) s[t] = s_first(a[t * lda].s32[i + k]);
        UNROLL for (int j = 0; j < 8; j++) {
            const iv q = code(w, k, j);
            UNROLL for (int t = 0; t < n; t++) s[t] =
                s_next(s[t], q, l_at(a[t * lda].qs + 32 * (i + k) + 4 * j));
        }
        UNROLL for (int t = 0; t < n; t++) acc[t] = scaled(&h, k, s[t], a + t * lda, i + k, acc[t]);
    }
}

INLINE void tile(int n, const uint8_t *w, const struct kern_act *a, int64_t lda, float *out,
                 int64_t ldo, int64_t nb) {
    fv acc[TILE];
    UNROLL for (int t = 0; t < n; t++) acc[t] = l_set(0);
    for (int64_t b = 0; b < nb; b++) {
        if (n == 1) ahead(w + b * BLOCK * LANES, BLOCK * LANES);
        block(n, w + b * BLOCK * LANES, a + b / PER_ACT, lda, (int)(b % PER_ACT) * CHUNKS, acc);
    }
    UNROLL for (int t = 0; t < n; t++) l_storef(out + t * ldo, acc[t]);
}

static void gemm(const uint8_t *w, const struct kern_act *a, int64_t lda, int64_t n, float *out,
                 int64_t ldo, int64_t k, void *scratch) {
    const int64_t nb = k / SIZE;
    (void)scratch;
    for (; n >= TILE; n -= TILE, a += TILE * lda, out += TILE * ldo)
        tile(TILE, w, a, lda, out, ldo, nb);
    if (n & 4) tile(4, w, a, lda, out, ldo, nb), a += 4 * lda, out += 4 * ldo;
    if (n & 2) tile(2, w, a, lda, out, ldo, nb), a += 2 * lda, out += 2 * ldo;
    if (n & 1) tile(1, w, a, lda, out, ldo, nb);
}
