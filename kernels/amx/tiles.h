// SPDX-License-Identifier: MIT
/* kernels/amx/tiles.h - products of packed groups with many tokens by AMX: a tile of 16 tokens x 64
 * codes, straight from kern_act.qs, times a tile of 64 codes x 16 rows, which 16 vectors of
 * unpacked codes are, adds to 16 tokens x 16 rows of int32.
 *
 * A type's file includes avx512/lanes.h and the type's header of kernels/rows/, defines FEW, the
 * kernel of AVX-512 that takes few tokens, and DEPTH, the codes of a row that one product takes (64
 * or 32), and then includes fold.h or plain.h, which include this file, and gemm.h, which has the
 * loops.
 *
 * Sums are exact integers and the float steps are those of kernels/rows/, so a token's result is
 * the same bits as with AVX-512, whatever the number of tokens.
 *
 * Tokens go by sixteen. If their number is no multiple of it the last sixteen begin earlier: what
 * was summed before is multiplied again, but not added. So no tile is ever smaller than 16 rows.
 *
 * gcc 12 declares tile instructions without the memory that they read and write: `touched` tells
 * the compiler. */
#ifndef HONE_KERNELS_AMX_TILES_H
#define HONE_KERNELS_AMX_TILES_H

/* HALF tokens are the rows of a tile; fewer go to the kernel of AVX-512, which need not unpack
 * weights and is faster then (docs/notebook/amx.md). The sums of CHUNK tokens fit into the first
 * cache beside 256 unpacked weights of 16 rows. IN_ACT blocks of weights meet one kern_act. */
enum { HALF = 16, CHUNK = 256, IN_ACT = 256 / SIZE };

/* Tells the compiler that the memory at p is read or written here. */
INLINE void touched(const void *p) {
    __asm__ volatile("" : : "r"(p) : "memory");
}

/* The 64 bytes that ldtilecfg reads. */
struct tile_config {
    uint8_t palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
_Static_assert(sizeof(struct tile_config) == 64, "tile configuration");

/* Makes tiles 0 to 3 sums, 4 and 5 activations of 16 tokens, 6 and 7 codes. */
INLINE void configure(void) {
    struct tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.rows[i] = i < 6 ? HALF : DEPTH / 4;
        c.row_bytes[i] = i == 4 || i == 5 ? DEPTH : 64;
    }
    touched(&c);
    _tile_loadconfig(&c);
}

/* These are macros because the number of a tile is part of the instruction. */
#define TILE_LOAD(t, p, stride)                                                                    \
    do {                                                                                           \
        touched(p);                                                                                \
        _tile_loadd(t, p, stride);                                                                 \
    } while (0)
#define TILE_STORE(t, p)                                                                           \
    do {                                                                                           \
        _tile_stored(t, p, 64);                                                                    \
        touched(p);                                                                                \
    } while (0)

/* Sixteen tokens of a chunk: the activations of the first, how many of them, from the first on,
 * were summed before, and the sums of the others; with 16 there is nothing to do. */
struct half {
    const struct kern_act *x;
    fv *acc;
    int done;
};

/* Returns the sixteen tokens from t on, of n in all; t0 is the first token of this chunk, and those
 * from t1 on are not of it. */
INLINE struct half half_at(const struct kern_act *a, int64_t lda, fv *acc, int64_t t, int64_t t0,
                           int64_t t1, int64_t n) {
    const int64_t from = t + HALF <= n ? t : n - HALF;
    if (t >= t1) return (struct half){a, acc, HALF};
    return (struct half){a + from * lda, acc + (t - t0), (int)(t - from)};
}

#endif
