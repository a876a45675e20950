// SPDX-License-Identifier: MIT
/* quantize/enc/lanes.c - the searches over blocks, for one instruction set: this file, compiled as
 * it is, for what every processor has; avx2/lanes.c includes it again. */
#include "quantize/enc/lanes_aff.h"
#include "quantize/enc/lanes_b32.h"
#include "quantize/enc/lanes_sym.h"

#ifndef LANES_TABLE
#define LANES_TABLE enc_lanes_base
#endif

/* Room for one block, or eight of 32. */
#define ROOM(mem)                                                                                  \
    float room_x[QK], room_w[QK];                                                                  \
    struct enc_open room_mine[LANES];                                                              \
    const struct lanes_mem mem = {room_x, room_w, room_mine}

static void sym_open(const struct enc_how *h, const float *x, const float *imp, int64_t n_blocks,
                     struct enc_open *o) {
    ROOM(mem);
    for (int64_t b = 0; b < n_blocks; b++)
        sym_block(h, &mem, x + b * QK, imp ? imp + b * QK : NULL, o + b);
}

static void aff_open(const struct enc_how *h, const float *x, const float *imp, int64_t n_blocks,
                     struct enc_open *o) {
    ROOM(mem);
    for (int64_t b = 0; b < n_blocks; b++)
        aff_block(h, &mem, x + b * QK, imp ? imp + b * QK : NULL, o + b);
}

static void b32_open(const struct enc_how *h, const float *x, const float *imp, int64_t n_blocks,
                     struct enc_open *o) {
    ROOM(mem);
    for (int64_t b = 0; b < n_blocks; b += LANES)
        b32_tile(h, &mem, x + b * B32, imp ? imp + b * B32 : NULL,
                 (int)(n_blocks - b < LANES ? n_blocks - b : LANES), o + b);
}

static bool load_row(float *dst, const float *x, int n, float limit) {
    return load(dst, x, n, limit, n);
}

static float mean2_row(const float *x, int64_t n) {
    return mean2(x, (int)n, (int)n);
}

static void round_f16(float v[8]) {
    storev(v, f16v(loadv(v)));
}

const struct enc_lanes LANES_TABLE = {
    {aff_open, sym_open, b32_open}, load_row, weights, mean2_row, balance, round_f16};
