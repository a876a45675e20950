// SPDX-License-Identifier: MIT
/* tests/isa-emu/self.c - tests of the emulation against plain C, on all byte values and on values
 * that could saturate wrongly. */
#include "base/rng.h"
#include "tests/isa-emu/emu.h"

static int wrong_dot(struct rng *r, int round) {
    int wrong = 0;
    uint8_t u[64];
    int8_t s[64];
    int32_t c[16], got[16];
    for (int i = 0; i < 64; i++) {
        u[i] = round == 0 ? 255 : (uint8_t)rng_u64(r);
        s[i] = round == 0 ? -128 : (int8_t)rng_u64(r);
    }
    for (int i = 0; i < 16; i++) c[i] = (int32_t)(rng_u64(r) >> 33);
    const __m512i v =
        _mm512_dpbusd_epi32(_mm512_loadu_si512(c), _mm512_loadu_si512(u), _mm512_loadu_si512(s));
    memcpy(got, &v, sizeof got);
    for (int i = 0; i < 16; i++) {
        for (int b = 4 * i; b < 4 * i + 4; b++) c[i] += u[b] * s[b];
        wrong += got[i] != c[i];
    }
    return wrong;
}

static int wrong_mask(unsigned m) {
    int wrong = 0;
    float x[16], got[16];
    for (int i = 0; i < 16; i++) x[i] = (float)i + 1;
    _mm512_storeu_ps(got, _mm512_maskz_loadu_ps((__mmask16)m, x));
    for (int i = 0; i < 16; i++) wrong += got[i] != (m >> i & 1 ? x[i] : 0);
    return wrong;
}

/* Products of tiles of any size, both kinds that we use. */
static int wrong_tiles(struct rng *r, int tokens, int depth, bool b_signed) {
    struct {
        uint8_t palette, start_row, zero[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1,
                .row_bytes = {64, (uint16_t)depth, 64},
                .rows = {(uint8_t)tokens, (uint8_t)tokens, (uint8_t)(depth / 4)}};
    int8_t a[16][80];
    uint8_t b[16][64];
    int32_t c[16][16], got[16][16];
    for (int i = 0; i < 16; i++) {
        for (int j = 0; j < 80; j++) a[i][j] = tokens == 1 ? -128 : (int8_t)rng_u64(r);
        for (int j = 0; j < 64; j++) b[i][j] = tokens == 1 ? 255 : (uint8_t)rng_u64(r);
        for (int j = 0; j < 16; j++) got[i][j] = c[i][j] = (int32_t)(rng_u64(r) >> 40);
    }
    _tile_loadconfig(&config);
    _tile_loadd(0, c, 64);
    _tile_loadd(1, a, 80);
    _tile_loadd(2, b, 64);
    if (b_signed)
        _tile_dpbssd(0, 1, 2);
    else
        _tile_dpbsud(0, 1, 2);
    _tile_stored(0, got, 64);
    _tile_release();
    int wrong = 0;
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            for (int k = 0; k < depth && i < tokens; k++) {
                const uint8_t code = b[k / 4][4 * j + k % 4];
                c[i][j] += a[i][k] * (b_signed ? (int8_t)code : code);
            }
            wrong += got[i][j] != c[i][j];
        }
    return wrong;
}

int emu_wrong(void) {
    struct rng r;
    rng_seed(&r, 5);
    int wrong = 0;
    for (int round = 0; round < 200; round++) wrong += wrong_dot(&r, round);
    for (unsigned m = 0; m < 0x10000; m += 0x0123) wrong += wrong_mask(m);
    for (int tokens = 1; tokens <= 16; tokens++)
        for (int depth = 4; depth <= 64; depth += 4)
            wrong += wrong_tiles(&r, tokens, depth, true) + wrong_tiles(&r, tokens, depth, false);
    return wrong;
}
