// SPDX-License-Identifier: MIT
/* quantize/enc/unpack.c - scales, minima and codes of types with raw blocks; scales, entries and
 * signs of IQ2 and IQ3 blocks. Layouts: containers/qtype.h. */
#include "quantize/enc/unpack.h"

#include "base/attr.h"
#include "base/bytes.h"
#include "base/fp.h"
#include "quantize/enc/grid_pack.h"
#include "quantize/enc/super.h"

static void unpack_Q2_K(const void *blk, struct enc_raw *o) {
    const struct blk_Q2_K *b = blk;
    for (int k = 0; k < 16; k++) {
        o->sc[k] = b->scales[k] & 15;
        o->mn[k] = b->scales[k] >> 4;
    }
    for (int i = 0; i < QK; i++)
        o->l[i] = (int8_t)(b->qs[32 * (i / 128) + i % 32] >> 2 * (i / 32 % 4) & 3);
}

static void unpack_Q3_K(const void *blk, struct enc_raw *o) {
    const struct blk_Q3_K *b = blk;
    for (int k = 0; k < 16; k++) {
        const int low = b->scales[k % 8] >> 4 * (k / 8) & 15, high = b->scales[8 + k % 4];
        o->sc[k] = (int16_t)((low | (high >> 2 * (k / 4) & 3) << 4) - 32);
    }
    for (int i = 0; i < QK; i++) {
        const int low = b->qs[32 * (i / 128) + i % 32] >> 2 * (i / 32 % 4) & 3;
        o->l[i] = (int8_t)(low - 4 * !(b->hmask[i % 32] >> i / 32 & 1));
    }
}

/* Sets the scales and minima of Q4_K and Q5_K. */
static void unpack_scale_min(const uint8_t s[12], struct enc_raw *o) {
    for (int k = 0; k < 4; k++) {
        o->sc[k] = s[k] & 63;
        o->mn[k] = s[k + 4] & 63;
        o->sc[k + 4] = (int16_t)((s[k + 8] & 15) | s[k] >> 6 << 4);
        o->mn[k + 4] = (int16_t)(s[k + 8] >> 4 | s[k + 4] >> 6 << 4);
    }
}
static void unpack_Q4_K(const void *blk, struct enc_raw *o) {
    const struct blk_Q4_K *b = blk;
    unpack_scale_min(b->scales, o);
    for (int i = 0; i < QK; i++)
        o->l[i] = (int8_t)(b->qs[32 * (i / 64) + i % 32] >> 4 * (i / 32 % 2) & 15);
}
static void unpack_Q5_K(const void *blk, struct enc_raw *o) {
    const struct blk_Q5_K *b = blk;
    unpack_scale_min(b->scales, o);
    for (int i = 0; i < QK; i++) {
        const int low = b->qs[32 * (i / 64) + i % 32] >> 4 * (i / 32 % 2) & 15;
        o->l[i] = (int8_t)(low | (b->qh[i % 32] >> i / 32 & 1) << 4);
    }
}

static void unpack_IQ4_XS(const void *blk, struct enc_raw *o) {
    const struct blk_IQ4_XS *b = blk;
    for (int k = 0; k < 8; k++) {
        const int low = b->scales_l[k / 2] >> 4 * (k % 2) & 15;
        o->sc[k] = (int16_t)((low | (b->scales_h >> 2 * k & 3) << 4) - 32);
    }
    for (int i = 0; i < QK; i++)
        o->l[i] = enc_iq4_values[b->qs[16 * (i / 32) + i % 16] >> 4 * (i / 16 % 2) & 15];
}

/* Returns code i of a block of 32: low nibbles, then high ones. */
static int nibble(const uint8_t *qs, int i) {
    return qs[i % 16] >> 4 * (i / 16) & 15;
}
static void unpack_Q4_0(const void *blk, struct enc_raw *o) {
    for (int i = 0; i < 32; i++)
        o->l[i] = (int8_t)(nibble(((const struct blk_Q4_0 *)blk)->qs, i) - 8);
}
static void unpack_Q4_1(const void *blk, struct enc_raw *o) {
    for (int i = 0; i < 32; i++) o->l[i] = (int8_t)nibble(((const struct blk_Q4_1 *)blk)->qs, i);
}
static void unpack_Q5_0(const void *blk, struct enc_raw *o) {
    const struct blk_Q5_0 *b = blk;
    const uint32_t high = load_u32(b->qh);
    for (int i = 0; i < 32; i++)
        o->l[i] = (int8_t)((nibble(b->qs, i) | (int)(high >> i & 1) << 4) - 16);
}
static void unpack_Q5_1(const void *blk, struct enc_raw *o) {
    const struct blk_Q5_1 *b = blk;
    const uint32_t high = load_u32(b->qh);
    for (int i = 0; i < 32; i++) o->l[i] = (int8_t)(nibble(b->qs, i) | (int)(high >> i & 1) << 4);
}
static void unpack_IQ4_NL(const void *blk, struct enc_raw *o) {
    for (int i = 0; i < 32; i++)
        o->l[i] = enc_iq4_values[nibble(((const struct blk_IQ4_NL *)blk)->qs, i)];
}

/* ---- grid types ------------------------------------------------------------------------------ */

/* Returns eight signs from seven: their number is even. */
static uint8_t even(unsigned sign) {
    return (uint8_t)(sign | (unsigned)odd_bits(sign) << 7);
}
/* Sets four groups of signs and a scale from the word that holds them. */
static void unpack_word(uint32_t word, int k, struct grid_block *o) {
    for (int l = 0; l < 4; l++) o->sign[4 * k + l] = even(word >> 7 * l & 127);
    o->sc[k] = (uint8_t)(word >> 28);
}
static void unpack_nibbles(const uint8_t *from, int n, struct grid_block *o) {
    for (int k = 0; k < n; k++) o->sc[k] = from[k / 2] >> 4 * (k % 2) & 15;
}

static void unpack_IQ2_XXS(const void *blk, struct grid_block *o) {
    const struct blk_IQ2_XXS *b = blk;
    const uint8_t *qs = (const uint8_t *)b->qs;
    for (int k = 0; k < 8; k++) {
        for (int l = 0; l < 4; l++) o->index[4 * k + l] = qs[8 * k + l];
        unpack_word(load_u32(qs + 8 * k + 4), k, o);
    }
}
static void unpack_IQ2_XS(const void *blk, struct grid_block *o) {
    const struct blk_IQ2_XS *b = blk;
    for (int h = 0; h < 32; h++) {
        o->index[h] = b->qs[h] & 511;
        o->sign[h] = even(b->qs[h] >> 9);
    }
    unpack_nibbles(b->scales, 16, o);
}
static void unpack_IQ2_S(const void *blk, struct grid_block *o) {
    const struct blk_IQ2_S *b = blk;
    for (int h = 0; h < 32; h++) {
        o->index[h] = (uint16_t)(b->qs[h] | (b->qh[h / 4] >> 2 * (h % 4) & 3) << 8);
        o->sign[h] = b->qs[32 + h];
    }
    unpack_nibbles(b->scales, 16, o);
}
static void unpack_IQ3_XXS(const void *blk, struct grid_block *o) {
    const struct blk_IQ3_XXS *b = blk;
    for (int h = 0; h < 64; h++) o->index[h] = b->qs[h];
    for (int k = 0; k < 8; k++) unpack_word(load_u32(b->qs + 64 + 4 * k), k, o);
}
static void unpack_IQ3_S(const void *blk, struct grid_block *o) {
    const struct blk_IQ3_S *b = blk;
    for (int h = 0; h < 64; h++)
        o->index[h] = (uint16_t)(b->qs[h] | (b->qh[h / 8] >> h % 8 & 1) << 8);
    memcpy(o->sign, b->signs, sizeof b->signs);
    unpack_nibbles(b->scales, 8, o);
}

/* ---- all types ------------------------------------------------------------------------------- */

#define OPEN(T) {QT_##T, unpack_##T, NULL},
#define GRID(T) {QT_##T, NULL, unpack_##T},
static const struct row {
    enum qtype type;
    void (*open)(const void *blk, struct enc_raw *o);
    void (*grid)(const void *blk, struct grid_block *o);
} rows[] = {OPEN(Q2_K) OPEN(Q3_K) OPEN(Q4_K) OPEN(Q5_K) OPEN(IQ4_XS) OPEN(Q4_0) OPEN(Q4_1) OPEN(
    Q5_0) OPEN(Q5_1) OPEN(IQ4_NL) GRID(IQ2_XXS) GRID(IQ2_XS) GRID(IQ2_S) GRID(IQ3_XXS) GRID(IQ3_S)};

/* Returns a type's row; NULL: missing. */
static const struct row *find(enum qtype t) {
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].type == t) return &rows[i];
    return NULL;
}
bool enc_can_unpack(enum qtype t) {
    return find(t) && find(t)->open;
}
bool enc_can_unpack_grid(enum qtype t) {
    return find(t) && find(t)->grid;
}

void enc_unpack(enum qtype t, const void *restrict blk, struct enc_raw *restrict o) {
    const struct enc_spec *s = enc_blocks_find(t)->spec;
    const struct qtype_info *q = qtype_info(t);
    const uint8_t *b = blk;
    const bool two = q->scale.n > 1, fixed = s->family == ENC_B32;
    o->n = q->block_elems;
    o->sub = s->sub;
    o->lv = s->lv;
    o->sc_lo = fixed ? 1 : s->sc_lo;
    o->sc_hi = fixed ? 1 : s->sc_hi;
    o->sc[0] = o->mn[0] = 1;
    o->d = fp_f16_to_f32(load_u16(b + q->scale.off[0]));
    o->m = two ? fp_f16_to_f32(load_u16(b + q->scale.off[1])) : 0;
    o->m_sign = !two ? 0 : fixed ? 1 : -1;
    o->mn_hi = two && !fixed ? s->sc_hi : 0;
    find(t)->open(blk, o);
}

void enc_unpack_grid(enum qtype t, const void *restrict blk, struct grid_block *restrict o) {
    o->d = fp_f16_to_f32(load_u16(blk));
    find(t)->grid(blk, o);
}

void enc_pack_grid(enum qtype t, const struct grid_block *o, void *blk) {
#define ROW(T) {QT_##T, enc_pack_##T},
    static const struct {
        enum qtype type;
        void (*pack)(void *, const struct grid_block *);
    } row[] = {ENC_GRID_TYPES(ROW)};
#undef ROW
    for (size_t i = 0; i < COUNT_OF(row); i++)
        if (row[i].type == t) row[i].pack(blk, o);
}
