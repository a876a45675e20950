// SPDX-License-Identifier: MIT
/* kernels/rows/signed.h - products of packed groups (kernels/pack.h) of a format with signed codes.
 * Included once by a type's file, which has included an ISA's lanes.h and defined:
 *   BLOCK (bytes), SIZE (weights of a block: 32 or 256)
 *   WHOLE                        1: a code may be -128
 *   SIDE                         groups that one token reads side by side: 1 or 2
 *   struct head, head(w, h)      what a block's codes are multiplied by
 *   code(w, k, j)                codes 32k + 4j .. 4j + 3 of every row, signed
 *   FACTOR(h, k)                 of blocks of 256: the integer that codes 32k .. 32k + 31 meet
 *   scaled(h, s, a, i, acc)      acc + the block's scale times s, its products with the activations
 *                                32i ..
 * Sums inside a block are exact. A token's sums are the same operations in the same order whatever
 * the number of tokens and groups is.
 *
 * Side by side: two streams of memory keep more reads under way than one, which pays where little
 * is computed per byte. Q8_0, two threads, one token: 1.17 to 1.24 times the speed from memory;
 * with more work per byte (k-quants, IQ4_XS) the second group's registers cost more: 0.6 to 0.9. */
#include "kernels/rows/rows.h"

enum { CHUNKS = SIZE / 32, PER_ACT = 256 / SIZE };
#ifndef FACTOR
#define FACTOR(h, k) l_i32(1)
#endif

/* The block at w for n tokens: acc[t] += ... */
INLINE void block(int n, const uint8_t *w, const struct kern_act *a, int64_t lda, int i, fv *acc) {
    struct head h;
    head(w, &h);
    iv sum[TILE];
    UNROLL for (int k = 0; k < CHUNKS; k++) {
        const iv f = s_scale(FACTOR(&h, k));
        iv s[TILE];
        UNROLL for (int t = 0; t < n; t++) s[t] = s_first(a[t * lda].s32[i + k]);
        UNROLL for (int j = 0; j < 8; j++) {
            const iv q = code(w, k, j);
            const int at = 32 * (i + k) + 4 * j;
            UNROLL for (int t = 0; t < n; t++) s[t] = s_next(
                s[t], q, l_at(a[t * lda].qs + at), l_at(a[t * lda].abs + at), f, WHOLE || n > 1);
        }
        UNROLL for (int t = 0; t < n; t++) {
            if (CHUNKS > 1) s[t] = s_end(k ? sum[t] : l_i32(0), s[t], f);
            sum[t] = s[t];
        }
    }
    UNROLL for (int t = 0; t < n; t++) acc[t] = scaled(&h, sum[t], a + t * lda, i, acc[t]);
}

/* n tokens with the group at w, or one token with `side` groups, each `step` after the other. */
INLINE void tile(int n, int side, const uint8_t *w, int64_t step, const struct kern_act *a,
                 int64_t lda, float *out, int64_t ldo, int64_t nb) {
    fv acc[TILE];
    UNROLL for (int t = 0; t < n * side; t++) acc[t] = l_set(0);
    for (int64_t b = 0; b < nb; b++, w += BLOCK * LANES) UNROLL for (int g = 0; g < side; g++) {
            if (n == 1) ahead(w + g * step, BLOCK * LANES);
            block(n, w + g * step, a + b / PER_ACT, lda, (int)(b % PER_ACT) * CHUNKS, acc + g * n);
        }
    UNROLL for (int t = 0; t < n * side; t++) l_storef(out + t * ldo, acc[t]);
}

/* n tokens with one group. */
static void group(const uint8_t *w, const struct kern_act *a, int64_t lda, int64_t n, float *out,
                  int64_t ldo, int64_t nb) {
    for (; n >= TILE; n -= TILE, a += TILE * lda, out += TILE * ldo)
        tile(TILE, 1, w, 0, a, lda, out, ldo, nb);
    if (n & 4) tile(4, 1, w, 0, a, lda, out, ldo, nb), a += 4 * lda, out += 4 * ldo;
    if (n & 2) tile(2, 1, w, 0, a, lda, out, ldo, nb), a += 2 * lda, out += 2 * ldo;
    if (n & 1) tile(1, 1, w, 0, a, lda, out, ldo, nb);
}

static void gemm(const uint8_t *w, int64_t n_groups, const struct kern_act *a, int64_t lda,
                 int64_t n, float *out, int64_t ldo, int64_t k, void *scratch) {
    const int64_t nb = k / SIZE, bytes = nb * BLOCK * LANES;
    const int64_t half_way = n == 1 && SIDE == 2 ? n_groups / 2 : 0;
    (void)scratch;
    for (int64_t g = 0; g < half_way; g++)
        tile(1, SIDE, w + g * bytes, half_way * bytes, a, lda, out + g * LANES, half_way * LANES,
             nb);
    for (int64_t g = 2 * half_way; g < n_groups; g++)
        group(w + g * bytes, a, lda, n, out + g * LANES, ldo, nb);
}
