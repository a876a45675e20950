// SPDX-License-Identifier: MIT
/* kernels/rows/signed.h - products of packed groups (kernels/pack.h) of formats with signed codes.
 * Included once by a type's file, after an ISA's lanes.h and these definitions:
 *   BLOCK (bytes), SIZE (weights of a block: 32, 64 or 256)
 *   BITS, BIAS                   code + BIAS is an unsigned number of BITS bits
 *   WHOLE                        1: a code may be -128
 *   struct head, head(w, h)      the factors of a block's codes
 *   code(w, k, j)                codes 32k + 4j .. 4j + 3 of every row, signed
 *   UCODE(w, k, j)               the same plus BIAS; omit if it would be just an addition
 *   FACTOR(h, k)                 blocks of 256: integer factor of codes 32k .. 32k + 31
 *   scaled(h, s, a, i, acc)      acc + the block's scale times s, its products with activations
 *                                32i ..
 * If every 16 codes have a float scale, define HALVES and, instead of FACTOR and scaled(),
 *   scaled16(h, p, s, a, i, acc) acc + scale p times s, its products with activations 32i ..
 * Sums inside a block are exact. A token's sums use the same operations in the same order for
 * any number of tokens and groups. */
#include "kernels/rows/rows.h"
#ifndef UNSIGNED_CODES
#define UNSIGNED_CODES 0
#endif
#ifndef SUBTRACTED
#define SUBTRACTED 0
#endif

enum { CHUNKS = SIZE / 32, PER_ACT = 256 / SIZE };
#ifndef FACTOR
#define FACTOR(h, k) ((void)(h), l_i32(1))
#endif
#ifndef UCODE
#define UCODE(w, k, j) l_sub8(code(w, k, j), l_i8(-BIAS))
#endif
#ifndef HALVES /* stubs for missing definitions; never called */
#define HALVES 0
#define scaled16(h, p, s, a, i, acc) ((void)(p), scaled(h, s, a, i, acc))
#else
#define scaled(h, s, a, i, acc) ((void)(h), (void)(s), (void)(a), (acc))
#endif

/* Implements chunk() for a block of 32 codes of few bits, on ISAs that sum products of bytes in 16
 * bits. Adding BIAS to the codes lets one such sum hold several products; BIAS times the sum of the
 * activations is subtracted afterwards. */
INLINE void chunk_short(int n, const uint8_t *w, const struct kern_act *a, int64_t lda, int i,
                        iv *sum) {
    const iv one = s_scale(l_i32(1));
    UNROLL for (int t = 0; t < n; t++) sum[t] = l_i32(-BIAS * a[t * lda].s32[i]);
    UNROLL for (int j0 = 0; j0 < 8; j0 += u_depth(BITS)) {
        iv s[TILE];
        UNROLL for (int j = j0; j < j0 + u_depth(BITS); j++) {
            const iv q = UCODE(w, 0, j);
            UNROLL for (int t = 0; t < n; t++) {
                const xv x = l_act(a[t * lda].qs + 32 * i, j);
                s[t] = j == j0 ? u_first(q, x) : u_next(s[t], q, x);
            }
        }
        UNROLL for (int t = 0; t < n; t++) sum[t] = u_end(sum[t], s[t], one);
    }
}

/* Sets each sum[t] to its previous value (0 if k = 0) plus the products of codes 32k .. 32k +
 * 31. */
INLINE void chunk(int n, const uint8_t *w, const struct head *h, int k, const struct kern_act *a,
                  int64_t lda, int i, iv *sum) {
    if (SHORT_SUMS && CHUNKS == 1 && BITS <= 5) {
        chunk_short(n, w, a, lda, i, sum);
        return;
    }
    const iv f = s_scale(FACTOR(h, k));
    iv s[TILE];
    const bool moved = UNSIGNED_CODES || (SUBTRACTED && n == 1);
    UNROLL for (int t = 0; t < n; t++) s[t] = s_first(moved ? BIAS * a[t * lda].s32[i + k] : 0);
    UNROLL for (int j = 0; j < 8; j++) {
        const iv q = moved ? UCODE(w, k, j) : code(w, k, j);
        const int at = 32 * (i + k);
        UNROLL for (int t = 0; t < n; t++) s[t] =
            s_next(s[t], q, l_act(a[t * lda].qs + at, j), l_act(a[t * lda].abs + at, j), f,
                   WHOLE || n > 1);
    }
    UNROLL for (int t = 0; t < n; t++) sum[t] =
        CHUNKS > 1 ? s_end(k ? sum[t] : l_i32(0), s[t], f) : s[t];
}

/* Adds the products of codes 32k .. 32k + 31 to each acc[t], scaled by sixteens. */
INLINE void sixteens(int n, const uint8_t *w, const struct head *h, int k, const struct kern_act *a,
                     int64_t lda, int i, fv *acc) {
    const iv one = s_scale(l_i32(1));
    UNROLL for (int p = 0; p < 2; p++) {
        iv s[TILE];
        UNROLL for (int t = 0; t < n && !SHORT_SUMS; t++) s[t] =
            s_first(UNSIGNED_CODES ? BIAS * a[t * lda].s16[2 * (i + k) + p] : 0);
        UNROLL for (int j = 0; j < 4; j++) {
            const iv q =
                SHORT_SUMS || UNSIGNED_CODES ? UCODE(w, k, 4 * p + j) : code(w, k, 4 * p + j);
            UNROLL for (int t = 0; t < n; t++) {
                const int at = 32 * (i + k) + 16 * p;
                const xv x = l_act(a[t * lda].qs + at, j);
                if (SHORT_SUMS)
                    s[t] = j == 0 ? u_first(q, x) : u_next(s[t], q, x);
                else
                    s[t] = s_next(s[t], q, x, l_act(a[t * lda].abs + at, j), one, WHOLE || n > 1);
            }
        }
        UNROLL for (int t = 0; t < n; t++) {
            const iv less = l_i32(-BIAS * a[t * lda].s16[2 * (i + k) + p]);
            const iv sum = SHORT_SUMS ? u_end(less, s[t], one) : s[t];
            acc[t] = scaled16(h, 2 * k + p, sum, a + t * lda, i + k, acc[t]);
        }
    }
}

/* Multiplies n tokens by one group. Prefetches memory (rows.h); that costs nothing if it is already
 * cached. */
INLINE void tile(int n, const uint8_t *w, const struct kern_act *a, int64_t lda, float *out,
                 int64_t ldo, int64_t nb) {
    const int part = BLOCK * LANES / CHUNKS;
    fv acc[TILE];
    UNROLL for (int t = 0; t < n; t++) acc[t] = l_set(0);
    for (int64_t b = 0; b < nb; b++, w += BLOCK * LANES) {
        const struct kern_act *x = a + b / PER_ACT;
        const int i = (int)(b % PER_ACT) * CHUNKS;
        struct head h;
        iv sum[TILE];
        head(w, &h);
        ROLLED for (int k = 0; k < CHUNKS; k++) {
            ahead(n, w + part * k, 0, part + 63);
            if (HALVES)
                sixteens(n, w, &h, k, x, lda, i, acc);
            else
                chunk(n, w, &h, k, x, lda, i, sum);
        }
        UNROLL for (int t = 0; t < n && !HALVES; t++) acc[t] =
            scaled(&h, sum[t], x + t * lda, i, acc[t]);
    }
    UNROLL for (int t = 0; t < n; t++) l_storef(out + t * ldo, acc[t]);
}

/* Multiplies one token by `side` groups, `step` bytes apart, switching between them every few cache
 * lines (rows.h). */
INLINE void one_token(int side, const uint8_t *w, int64_t step, const struct kern_act *a,
                      float *out, int64_t ldo, int64_t nb) {
    fv acc[2];
    UNROLL for (int g = 0; g < side; g++) acc[g] = l_set(0);
    for (int64_t b = 0; b < nb; b++, w += BLOCK * LANES) {
        const struct kern_act *x = a + b / PER_ACT;
        const int i = (int)(b % PER_ACT) * CHUNKS;
        struct head h[2];
        iv sum[2];
        UNROLL for (int g = 0; g < side; g++) head(w + g * step, h + g);
        UNROLL for (int k = 0; k < CHUNKS; k++) UNROLL for (int g = 0; g < side; g++) {
            ahead(1, w + g * step, BLOCK * LANES * k / CHUNKS, BLOCK * LANES * (k + 1) / CHUNKS);
            if (HALVES)
                sixteens(1, w + g * step, h + g, k, x, 0, i, acc + g);
            else
                chunk(1, w + g * step, h + g, k, x, 0, i, sum + g);
            apart();
        }
        UNROLL for (int g = 0; g < side && !HALVES; g++) acc[g] =
            scaled(h + g, sum[g], x, i, acc[g]);
    }
    UNROLL for (int g = 0; g < side; g++) l_storef(out + g * ldo, acc[g]);
}

/* Multiplies n tokens by one group. */
static void group(const uint8_t *w, const struct kern_act *a, int64_t lda, int64_t n, float *out,
                  int64_t ldo, int64_t nb) {
    for (; n >= TILE; n -= TILE, a += TILE * lda, out += TILE * ldo)
        tile(TILE, w, a, lda, out, ldo, nb);
    if (TILE > 7 && n == 7) tile(7, w, a, lda, out, ldo, nb);
    if (TILE > 6 && n == 6) tile(6, w, a, lda, out, ldo, nb);
    if (TILE > 5 && n == 5) tile(5, w, a, lda, out, ldo, nb);
    if (n == 4) tile(4, w, a, lda, out, ldo, nb);
    if (n == 3) tile(3, w, a, lda, out, ldo, nb);
    if (n == 2) tile(2, w, a, lda, out, ldo, nb);
    if (n == 1) one_token(1, w, 0, a, out, 0, nb);
}

/* Multiplies all tokens by all groups. Not used by AMX, which includes this file for its steps and
 * has a separate gemm. */
__attribute__((unused)) static void gemm(const uint8_t *w, int64_t n_groups,
                                         const struct kern_act *a, int64_t lda, int64_t n,
                                         float *out, int64_t ldo, int64_t k, void *scratch) {
    const int64_t nb = k / SIZE, bytes = nb * BLOCK * LANES;
    const int64_t half = n == 1 ? n_groups / 2 : 0;
    (void)scratch;
    for (int64_t g = 0; g < half; g++)
        one_token(2, w + g * bytes, half * bytes, a, out + g * LANES, half * LANES, nb);
    for (int64_t g = 2 * half; g < n_groups; g++)
        group(w + g * bytes, a, lda, n, out + g * LANES, ldo, nb);
}
