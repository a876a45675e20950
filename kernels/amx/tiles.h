// SPDX-License-Identifier: MIT
/* kernels/amx/tiles.h - products of packed groups with many tokens by AMX: a tile of 16 tokens x 64
 * codes, straight from kern_act.qs, times a tile of 64 codes x 16 rows, which 16 vectors of
 * unpacked codes are, adds to 16 tokens x 16 rows of int32. Included once by a type's file, after
 * avx512/lanes.h and the type's header of kernels/rows/, and after the
 * definition of
 *   FEW                         the kernel of AVX-512, for few tokens
 *   DEPTH                       codes of a row that one product takes: 64, or 32
 *   PLANES                      1: codes are signed bytes. 2: low bytes, unsigned, and high bytes
 *   struct tiled, unpack_tiles(w, p)  a block of SIZE weights of 16 rows; code[PLANES][SIZE / 4]
 *   finish_block(p, s, a, i, acc)   acc + the block, s: its sums with the activations 32i ..
 *
 * Sums are exact integers and the float steps are those of kernels/rows/, so a token's result is
 * the same bits as with AVX-512, whatever the number of tokens. Scratch: the unpacked group,
 * at most ROWS_PANEL bytes per row and 256 weights (kernels/pack.h).
 *
 * gcc 12 declares tile instructions without the memory that they read and write: `touched` tells
 * the compiler. Runs in emulation (tests/isa-emu); not run on a processor with AMX yet. */
#ifndef HONE_KERNELS_AMX_TILES_H
#define HONE_KERNELS_AMX_TILES_H

/* With fewer than TILES_FROM tokens the kernel of AVX-512 is used, which need not unpack weights.
 * The number is a guess: no processor with AMX was at hand. */
enum { TILES_FROM = 8, STRIP = 32 /* So many tokens share a load of codes. */ };
enum { IN_ACT = 256 / SIZE, DOTS = SIZE / DEPTH };

_Static_assert(sizeof(struct tiled) * IN_ACT <= ROWS_PANEL * LANES, "scratch of 256 weights");

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

/* Tiles 0, 1: sums of the first 16 tokens, a plane each; 2, 3: of the next 16; 4, 5: activations
 * of the first and the next 16; 6, 7: codes, a plane each. n: tokens, at most 32. */
INLINE void configure(int n) {
    struct tile_config c = {.palette = 1};
    for (int i = 0; i < 6; i++) {
        const bool next = i == 2 || i == 3 || i == 5;
        const int rows = next ? n - 16 : n < 16 ? n : 16;
        if (rows <= 0) continue; /* This tile is not there. */
        c.rows[i] = (uint8_t)rows;
        c.row_bytes[i] = i < 4 ? 64 : DEPTH;
    }
    c.rows[6] = c.rows[7] = DEPTH / 4;
    c.row_bytes[6] = c.row_bytes[7] = 64;
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

/* Computes sum[plane][token] = the block's codes times the activations at x, whose tokens are
 * `stride` bytes apart. `more` says that there are more than 16 tokens. Three loads feed two
 * products, with `more` four feed four. */
INLINE void multiply(bool more, const struct tiled *p, const int8_t *x, int64_t stride,
                     iv (*sum)[STRIP]) {
    const size_t ld = (size_t)stride;
    _tile_zero(0);
    if (PLANES == 2) _tile_zero(1);
    if (more) _tile_zero(2);
    if (more && PLANES == 2) _tile_zero(3);
    UNROLL for (int i = 0; i < DOTS; i++) {
        const iv *code = p->code[0] + i * (DEPTH / 4);
        TILE_LOAD(6, code, 64);
        if (PLANES == 2) TILE_LOAD(7, code + SIZE / 4, 64);
        TILE_LOAD(4, x + i * DEPTH, ld);
        if (more) TILE_LOAD(5, x + i * DEPTH + 16 * stride, ld);
        if (PLANES == 2) {
            _tile_dpbsud(0, 4, 6);
            _tile_dpbssd(1, 4, 7);
            if (more) _tile_dpbsud(2, 5, 6);
            if (more) _tile_dpbssd(3, 5, 7);
        } else {
            _tile_dpbssd(0, 4, 6);
            if (more) _tile_dpbssd(2, 5, 6);
        }
    }
    TILE_STORE(0, sum[0]);
    if (PLANES == 2) TILE_STORE(1, sum[1]);
    if (more) TILE_STORE(2, sum[0] + 16);
    if (more && PLANES == 2) TILE_STORE(3, sum[1] + 16);
}

/* Multiplies n tokens, at most STRIP, with an unpacked group. The tiles are configured for n. */
static void strip(int n, const struct tiled *p, const struct kern_act *a, int64_t lda, float *out,
                  int64_t ldo, int64_t nb) {
    iv sum[PLANES][STRIP];
    fv acc[STRIP];
    const int64_t stride = lda * (int64_t)sizeof *a;
    for (int t = 0; t < n; t++) acc[t] = l_set(0);
    for (int64_t b = 0; b < nb; b++, p++) {
        const struct kern_act *x = a + b / IN_ACT;
        const int i = (int)(b % IN_ACT) * (SIZE / 32);
        if (n > 16)
            multiply(true, p, x->qs + 32 * i, stride, sum);
        else
            multiply(false, p, x->qs + 32 * i, stride, sum);
        for (int t = 0; t < n; t++) {
            iv s = sum[0][t];
            if (PLANES == 2) s = l_add(s, l_shl(sum[PLANES - 1][t], 8));
            acc[t] = finish_block(p, s, x + t * lda, i, acc[t]);
        }
    }
    for (int t = 0; t < n; t++) l_storef(out + t * ldo, acc[t]);
}

static void gemm_tiles(const uint8_t *w, int64_t n_groups, const struct kern_act *a, int64_t lda,
                       int64_t n, float *out, int64_t ldo, int64_t k, void *scratch) {
    if (n < TILES_FROM) {
        FEW.gemm(w, n_groups, a, lda, n, out, ldo, k, scratch);
        return;
    }
    struct tiled *p = scratch;
    const int64_t nb = k / SIZE;
    int configured = 0;
    for (int64_t g = 0; g < n_groups; g++, out += LANES) {
        for (int64_t b = 0; b < nb; b++, w += BLOCK * LANES) unpack_tiles(w, p + b);
        for (int64_t t = 0; t < n; t += STRIP) {
            const int m = n - t < STRIP ? (int)(n - t) : STRIP;
            if (m != configured) configure(m);
            configured = m;
            strip(m, p, a + t * lda, lda, out + t * ldo, ldo, nb);
        }
    }
    _tile_release(); /* The operating system need no longer keep the tiles. */
}

#endif
