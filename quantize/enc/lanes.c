// SPDX-License-Identifier: MIT
/* quantize/enc/lanes.c - the block searches for one instruction set: compiled as it is for the
 * baseline, and again through avx2/lanes.c. */
#include "quantize/enc/grid_block.h"
#include "quantize/enc/grid_conv.h"
#include "quantize/enc/grid_scale.h"
#include "quantize/enc/iq1_conv.h"
#include "quantize/enc/lanes_aff.h"
#include "quantize/enc/lanes_b32.h"
#include "quantize/enc/lanes_factor.h"
#include "quantize/enc/lanes_fb.h"
#include "quantize/enc/lanes_product.h"
#include "quantize/enc/lanes_sym.h"

#ifndef LANES_TABLE
#define LANES_TABLE enc_lanes_base
#endif

/* Declares the memory for one block, or for eight blocks of 32. */
#define ROOM(mem)                                                                                  \
    float room_x[QK], room_w[QK];                                                                  \
    struct enc_raw room_mine[LANES];                                                               \
    const struct lanes_mem mem = {room_x, room_w, room_mine}

/* Encodes blocks of a symmetric type (scales, no minimums). imp: one weight per value of x, or
 * NULL. */
static void sym_open(const struct enc_how *h, const float *x, const float *imp, int64_t n_blocks,
                     struct enc_raw *o) {
    ROOM(mem);
    for (int64_t b = 0; b < n_blocks; b++)
        sym_block(h, &mem, x + b * QK, imp ? imp + b * QK : NULL, o + b);
}

/* Encodes blocks of an affine type (scales and minimums). imp: one weight per value of x, or
 * NULL. */
static void aff_open(const struct enc_how *h, const float *x, const float *imp, int64_t n_blocks,
                     struct enc_raw *o) {
    ROOM(mem);
    for (int64_t b = 0; b < n_blocks; b++)
        aff_block(h, &mem, x + b * QK, imp ? imp + b * QK : NULL, o + b);
}

/* Encodes blocks of 32 values, several at a time. imp: one weight per value of x, or NULL. */
static void b32_open(const struct enc_how *h, const float *x, const float *imp, int64_t n_blocks,
                     struct enc_raw *o) {
    ROOM(mem);
    for (int64_t b = 0; b < n_blocks; b += LANES)
        b32_tile(h, &mem, x + b * B32, imp ? imp + b * B32 : NULL,
                 (int)(n_blocks - b < LANES ? n_blocks - b : LANES), o + b);
}

/* Encodes a block by rounding, without a search. */
static void grid_conventional(const struct grid_how *h, const struct grid_data *d,
                              struct grid_block *b) {
    const bool signs = h->s->shift == SHIFT_NONE;
    float scale[GRID_SUBS];
    for (int k = 0; k < QK / h->s->sub; k++)
        scale[k] = (signs ? grid_conv_sub : iq1_conv_sub)(h, d, k, b);
    if (signs)
        grid_conv_close(h, scale, b);
    else
        iq1_conv_close(h, d, scale, b);
}

/* Encodes a block with a search over scales and signs. imp: one weight per value of x, or NULL. */
static void grid_super(const struct grid_how *h, const float *x, const float *imp,
                       struct grid_block *b) {
    const struct grid_spec *s = h->s;
    struct grid_data d;
    struct grid_room room;
    struct chain flipped[2];
    struct grid_job j;
    const struct lanes_mem mem = {d.x, d.w, NULL};
    memset(b, 0, sizeof *b);
    if (h->search != SEARCH_FAST) {
        if (!grid_load(h, &h->conv, &mem, x, imp, &d)) return;
        grid_conventional(h, &d, b);
    }
    if (h->search == SEARCH_CONVENTIONAL) return;
    if (!grid_load(h, &h->rule, &mem, x, imp, &d)) return;
    for (int o = 0; o < QK / 8; o++)
        for (int way = 0; way < grid_ways(s); way++)
            octet_chains(h, &d, &room, flipped, o, way, &j.chain[grid_chain_at(s, o, way)]);
    grid_search(h, &d, &j, b);
}

/* Copies n values clamped to +-limit; returns false if the magnitude of all is at most 2^-25. */
static bool load_row(float *dst, const float *x, int n, float limit) {
    return load(dst, x, n, limit, n);
}

/* Returns the mean square of n values. */
static float mean2_row(const float *x, int64_t n) {
    return mean2(x, (int)n, (int)n);
}

/* Rounds eight values to f16. */
static void round_f16(float v[8]) {
    storev(v, f16v(loadv(v)));
}

INLINE int around_of(const int8_t *lev, int per, const float *q, const float *p) {
    vf best = splat(INFINITY);
    vi where = numbers();
    LANE_UNROLL(2)
    for (int g = 0; g < GRID_AROUND; g += LANES) {
        vf l[8], sum = splat(0);
        LANE_UNROLL(8)
        for (int i = 0; i < per; i++) {
            vf t = splat(-p[i]);
            l[i] = from_bytes(lev + i * GRID_AROUND + g);
            LANE_UNROLL(8)
            for (int k = 0; k <= i; k++) t += splat(q[8 * k + i]) * l[k];
            sum += t * l[i];
        }
        const vi less = sum < best;
        best = pick(less, sum, best);
        where = pick_int(less, numbers() + g, where);
    }
    return most(-best, where).at;
}

static int around(const int8_t *lev, int per, const float *q, const float *p) {
    return per == 8 ? around_of(lev, 8, q, p) : around_of(lev, 4, q, p);
}

const struct enc_lanes LANES_TABLE = {{aff_open, sym_open, b32_open},
                                      grid_super,
                                      load_row,
                                      weights,
                                      mean2_row,
                                      balance,
                                      round_f16,
                                      around,
                                      factor_panel,
                                      factor_trail,
                                      product,
                                      add_rows,
                                      fb_choose,
                                      fb_ints,
                                      fb_units,
                                      fb_scales,
                                      fb_codes,
                                      fb_weigh,
                                      ints,
                                      fb_dot};
