// SPDX-License-Identifier: MIT
/* kernels/i8mm/tiles.h - FEAT_I8MM products of packed groups with many tokens: one instruction
 * multiplies two rows of eight codes by two tokens of eight activations, and adds the products to
 * 2 x 2 sums. A group is unpacked once for all tokens, with adjacent words of four codes paired.
 * Included once by a type's file, after neon/lanes.h, the type's header of kernels/rows/ and these
 * definitions:
 *   FEW                             the kernel of kernels/dotprod/, for few tokens
 *   struct tiled                    a block of 8 rows of SIZE weights: code, scale and inputs of
 *                                   finish_block
 *   unpack_tiles(w, grid, p)        sets p to the block at w; grid: of kernels/grid.h
 *   PER_SCALE                       weights per integer scale; SIZE: no integer scales
 *   finish_block(p, s, a, i, acc)   acc + the block, s: its sums with activations 32i ..
 *
 * Sums are exact integers and the float steps are the same as in kernels/rows/, so a token's result
 * has the same bits as with the other kernels, for any number of tokens. */
#ifndef HONE_KERNELS_I8MM_TILES_H
#define HONE_KERNELS_I8MM_TILES_H

/* Below TILES_FROM tokens (an estimate, not measured), FEW is used, which does not unpack weights.
 * PAIRS: pairs of tokens per tile; a tile needs 8 sums, 8 scaled sums and 8 float sums. */
enum { TILES_FROM = 6, PAIRS = 2 };
enum { IN_ACT = 256 / SIZE, SCALED = SIZE / PER_SCALE > 1 };

_Static_assert(sizeof(struct tiled) * IN_ACT <= ROWS_PANEL * LANES, "scratch of 256 weights");

/* Computes for each token the sum of a block's codes, each times its scale, times the activations
 * at x. Tokens are `stride` bytes apart. n is at most 2 * PAIRS; if n is odd, the last token is
 * multiplied twice. */
INLINE void multiply(int n, const struct tiled *p, const int8_t *x, int64_t stride, iv *sum) {
    const int pairs = (n + 1) / 2;
    int32x4_t all[PAIRS][4];
    UNROLL for (int t = 0; t < pairs; t++) UNROLL for (int r = 0; r < 4; r++) all[t][r] =
        vdupq_n_s32(0);
    ROLLED for (int k = 0; k < SIZE / PER_SCALE; k++) {
        int32x4_t s[PAIRS][4];
        UNROLL for (int t = 0; t < pairs; t++) UNROLL for (int r = 0; r < 4; r++) s[t][r] =
            vdupq_n_s32(0);
        UNROLL for (int j = 0; j < PER_SCALE / 8; j++) {
            const int at = k * (PER_SCALE / 8) + j;
            int8x16_t a[PAIRS];
            UNROLL for (int t = 0; t < pairs; t++) {
                const int8_t *one = x + 2 * t * stride + 8 * at;
                const int8_t *other = 2 * t + 1 < n ? one + stride : one;
                a[t] = vcombine_s8(vld1_s8(one), vld1_s8(other));
            }
            UNROLL for (int r = 0; r < 4; r++) UNROLL for (int t = 0; t < pairs; t++) s[t][r] =
                vmmlaq_s32(s[t][r], p->code[at][r], a[t]);
        }
        UNROLL for (int t = 0; t < pairs; t++) UNROLL for (int r = 0; r < 4; r++) all[t][r] =
            SCALED ? vmlaq_s32(all[t][r], s[t][r], p->scale[SCALED ? k : 0][r]) : s[t][r];
    }
    UNROLL for (int i = 0; i < n; i++) {
        const int32x4_t *v = all[i / 2];
        sum[i] = i % 2 ? (iv){vuzp2q_s32(v[0], v[1]), vuzp2q_s32(v[2], v[3])}
                       : (iv){vuzp1q_s32(v[0], v[1]), vuzp1q_s32(v[2], v[3])};
    }
}

/* Multiplies n tokens, at most 2 * PAIRS, by an unpacked group. */
INLINE void strip(int n, const struct tiled *p, const struct kern_act *a, int64_t lda, float *out,
                  int64_t ldo, int64_t nb) {
    fv acc[2 * PAIRS];
    UNROLL for (int t = 0; t < n; t++) acc[t] = l_set(0);
    for (int64_t b = 0; b < nb; b++, p++) {
        const struct kern_act *x = a + b / IN_ACT;
        const int i = (int)(b % IN_ACT) * (SIZE / 32);
        iv sum[2 * PAIRS];
        multiply(n, p, x->qs + 32 * i, lda * (int64_t)sizeof *a, sum);
        UNROLL for (int t = 0; t < n; t++) acc[t] = finish_block(p, sum[t], x + t * lda, i, acc[t]);
    }
    UNROLL for (int t = 0; t < n; t++) l_storef(out + t * ldo, acc[t]);
}

static void gemm_tiles(const uint8_t *w, int64_t n_groups, const struct kern_act *a, int64_t lda,
                       int64_t n, float *out, int64_t ldo, int64_t k, void *scratch) {
    if (n < TILES_FROM) {
        FEW.gemm(w, n_groups, a, lda, n, out, ldo, k, scratch);
        return;
    }
    struct tiled *p = scratch;
    const struct kern_grid *grid = kern_grid_get();
    const int64_t nb = k / SIZE;
    for (int64_t g = 0; g < n_groups; g++, out += LANES) {
        for (int64_t b = 0; b < nb; b++, w += BLOCK * LANES) unpack_tiles(w, grid, p + b);
        int64_t t = 0;
        for (; t + 2 * PAIRS <= n; t += 2 * PAIRS)
            strip(2 * PAIRS, p, a + t * lda, lda, out + t * ldo, ldo, nb);
        if ((n - t) & 2) strip(2, p, a + t * lda, lda, out + t * ldo, ldo, nb), t += 2;
        if ((n - t) & 1) strip(1, p, a + t * lda, lda, out + t * ldo, ldo, nb);
    }
}

#endif
