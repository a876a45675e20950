// SPDX-License-Identifier: MIT
/* kernels/amx/tiles.h - products of packed groups with many tokens by AMX: a tile of 16 tokens x 64
 * codes, straight from kern_act.qs, times a tile of 64 codes x 16 rows, which 16 vectors of
 * unpacked codes are, adds to 16 tokens x 16 rows of int32. Included once by fold.h or plain.h,
 * after avx512/lanes.h and the type's header of kernels/rows/, and after the definition of
 *   FEW                 the kernel of AVX-512, for few tokens
 *   DEPTH               codes of a row that one product takes: 64, or 32
 *   struct tiled        256 weights of 16 rows, unpacked
 *   unpack_tiles(w, n, p)  unpacks n blocks of SIZE weights; n is 256 / SIZE but for a row's end
 *   struct strip, multiply_strip, finish_strip  see gemm_tiles
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

/* With fewer tokens than 16 the kernel of AVX-512 is used, which need not unpack weights
 * (docs/notebook/amx.md). Sums of CHUNK tokens stay in the first cache beside the unpacked
 * weights. */
enum { HALF = 16, CHUNK = 256, IN_ACT = 256 / SIZE };

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
