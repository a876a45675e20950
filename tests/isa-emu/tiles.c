// SPDX-License-Identifier: MIT
/* tests/isa-emu/tiles.c - emulation of the AMX tile registers, following the pseudocode in Intel's
 * manual. Invalid configurations, tiles that are not configured and sizes that do not match end the
 * program, as the processor's exception would. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/isa-emu/emu.h"

_Thread_local uint8_t emu_tile[8][16][64];
bool emu_break_tiles;
static _Thread_local struct {
    uint8_t palette, start_row, zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} config;

static void must(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "AMX emulation: %s\n", what);
    abort();
}

void emu_tile_config(const void *from) {
    memcpy(&config, from, sizeof config);
    memset(emu_tile, 0, sizeof emu_tile);
    must(config.palette == 1, "ldtilecfg: palette");
    must(config.start_row == 0, "ldtilecfg: start row");
    for (int i = 0; i < 14; i++) must(config.zero[i] == 0, "ldtilecfg: reserved bytes");
    for (int i = 0; i < 16; i++) {
        must(config.rows[i] <= 16 && config.row_bytes[i] <= 64, "ldtilecfg: a tile too large");
        must(!config.rows[i] == !config.row_bytes[i], "ldtilecfg: half of a tile");
        must(i < 8 || !config.rows[i], "ldtilecfg: there are eight tiles");
    }
}

void emu_tile_release(void) {
    memset(&config, 0, sizeof config);
}

int emu_tile_rows(int t, int *row_bytes) {
    must(config.palette == 1, "tiles are not configured");
    must(t >= 0 && t < 8 && config.rows[t] > 0, "a tile that is not configured");
    *row_bytes = config.row_bytes[t];
    return config.rows[t];
}

void emu_tile_zero(int t) {
    int bytes;
    emu_tile_rows(t, &bytes);
    memset(emu_tile[t], 0, sizeof emu_tile[t]);
}

/* Four bytes of every lane as two pairs of 16 bits. */
static __m256i evens(__m256i v, bool is_signed) {
    return is_signed ? _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8)
                     : _mm256_and_si256(v, _mm256_set1_epi16(255));
}
static __m256i odds(__m256i v, bool is_signed) {
    return is_signed ? _mm256_srai_epi16(v, 8) : _mm256_srli_epi16(v, 8);
}

/* TDPB: c[m][n] += a[m][4k .. 4k + 3] . b[k][4n .. 4n + 3], sums of 32 bits. */
void emu_tile_dot(int c, int a, int b, bool a_signed, bool b_signed) {
    int c_bytes, a_bytes, b_bytes;
    const int m = emu_tile_rows(c, &c_bytes), a_rows = emu_tile_rows(a, &a_bytes),
              k = emu_tile_rows(b, &b_bytes);
    must(c != a && c != b && a != b, "tdpb: a tile twice");
    must(m == a_rows && c_bytes == b_bytes && a_bytes == 4 * k && c_bytes % 4 == 0,
         "tdpb: sizes do not fit");
    emu_count.tile++;
    for (int i = 0; i < m; i++)
        for (int h = 0; h < 64; h += 32) {
            __m256i sum;
            memcpy(&sum, &emu_tile[c][i][h], sizeof sum);
            for (int j = 0; j < k; j++) {
                __m256i y;
                int32_t four;
                memcpy(&four, &emu_tile[a][i][4 * j], sizeof four);
                memcpy(&y, &emu_tile[b][j][h], sizeof y);
                const __m256i x = _mm256_set1_epi32(four);
                sum = _mm256_add_epi32(sum,
                                       _mm256_madd_epi16(evens(x, a_signed), evens(y, b_signed)));
                sum =
                    _mm256_add_epi32(sum, _mm256_madd_epi16(odds(x, a_signed), odds(y, b_signed)));
            }
            if (emu_break_tiles) sum = _mm256_add_epi32(sum, _mm256_set1_epi32(1));
            memcpy(&emu_tile[c][i][h], &sum, sizeof sum);
        }
}
