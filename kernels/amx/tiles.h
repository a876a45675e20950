// SPDX-License-Identifier: MIT
/* kernels/amx/tiles.h - AMX products of packed groups with many tokens. A tile of 16 tokens x 64
 * codes, loaded directly from kern_act.qs, is multiplied by a tile of 64 codes x 16 rows (16
 * vectors of unpacked codes) and added to 16 tokens x 16 rows of int32.
 *
 * A type's file includes avx512/lanes.h and the type's header of kernels/rows/; defines FEW, the
 * AVX-512 kernel for few tokens, and DEPTH, the codes of a row per product (64 or 32); and then
 * includes fold.h or plain.h, which include this file, and gemm.h, which has the loops.
 *
 * Sums are exact integers and the float steps are the same as in kernels/rows/, so a token's result
 * has the same bits as with AVX-512, for any number of tokens.
 *
 * Tokens are processed in groups of sixteen. If their number is not a multiple of 16, the last
 * group starts earlier: tokens that were already summed are multiplied again, but not added. So no
 * tile has fewer than 16 rows.
 *
 * gcc 12 declares tile instructions without their memory operands: `touched` informs the
 * compiler. */
#ifndef HONE_KERNELS_AMX_TILES_H
#define HONE_KERNELS_AMX_TILES_H

/* HALF tokens are the rows of a tile. Fewer tokens use the AVX-512 kernel, which does not unpack
 * weights and is then faster (docs/notebook/amx.md). The sums of CHUNK tokens fit into L1 together
 * with 256 unpacked weights of 16 rows. One kern_act spans IN_ACT blocks of weights. */
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

/* Configures tiles 0 to 3 as sums, 4 and 5 as activations of 16 tokens, 6 and 7 as codes. */
INLINE void configure(void) {
    struct tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.rows[i] = i < 6 ? HALF : DEPTH / 4;
        c.row_bytes[i] = i == 4 || i == 5 ? DEPTH : 64;
    }
    touched(&c);
    _tile_loadconfig(&c);
}

/* Macros, because the number of a tile is part of the instruction. */
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

/* Sixteen tokens of a chunk. x: activations of the first token. done: the first `done` tokens were
 * already summed (16: all). acc: sums of the others. */
struct half {
    const struct kern_act *x;
    fv *acc;
    int done;
};

/* Returns the sixteen tokens starting at t, of n in total. The current chunk is [t0, t1). */
INLINE struct half half_at(const struct kern_act *a, int64_t lda, fv *acc, int64_t t, int64_t t0,
                           int64_t t1, int64_t n) {
    const int64_t from = t + HALF <= n ? t : n - HALF;
    if (t >= t1) return (struct half){a, acc, HALF};
    return (struct half){a + from * lda, acc + (t - t0), (int)(t - from)};
}

#endif
