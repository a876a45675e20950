// SPDX-License-Identifier: MIT
/* quantize/enc/grid_pack.h - packing of the grid types' super-blocks (gridq.h), and access to
 * their d, on CPU and device. Layouts: containers/qtype.h. */
#ifndef HONE_QUANTIZE_ENC_GRID_PACK_H
#define HONE_QUANTIZE_ENC_GRID_PACK_H

#include <string.h>

#include "base/bytes.h"
#include "kernels/grid.h"
#include "quantize/enc/gridq.h"
#include "quantize/enc/raw.h"

/* Calls X(type) for each grid type. */
#define ENC_GRID_TYPES(X) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) X(IQ3_XXS) X(IQ3_S) X(IQ1_S) X(IQ1_M)

/* Returns a block's d as f16 bits. IQ1_M splits it into the top nibbles of its four scale words;
 * in other types it is the first two bytes. */
ENC_INLINE uint16_t enc_grid_d(enum qtype t, const uint8_t *blk) {
    const uint8_t *sc = ((const struct blk_IQ1_M *)(const void *)blk)->scales;
    if (t != QT_IQ1_M) return (uint16_t)(blk[0] | blk[1] << 8);
    return (uint16_t)(sc[1] >> 4 | (sc[3] & 0xf0) | (sc[5] & 0xf0) << 4 | (sc[7] & 0xf0) << 8);
}
ENC_INLINE void enc_grid_set_d(enum qtype t, uint8_t *blk, uint16_t d) {
    uint8_t *sc = ((struct blk_IQ1_M *)(void *)blk)->scales;
    for (int i = 0; i < 2 && t != QT_IQ1_M; i++) blk[i] = (uint8_t)(d >> (8 * i));
    for (int i = 0; i < 4 && t == QT_IQ1_M; i++)
        sc[2 * i + 1] = (uint8_t)((sc[2 * i + 1] & 15) | (d >> (4 * i) & 15) << 4);
}
/* Adds a weight's contribution to the two sums whose ratio is the gain of its row
 * (gridq_balance.c). */
ENC_INLINE void enc_grid_terms(float x, const float *imp, float y, double term[2]) {
    const double xi = (double)x, w = imp ? (double)*imp : 1;
    term[0] = w * xi * xi;
    term[1] = w * xi * (double)y;
}
/* Multiplies d by `gain` unless the result is zero. */
ENC_INLINE void enc_grid_raise(enum qtype t, uint8_t *blk, double gain) {
    const double d = (double)fp_f16_to_f32(enc_grid_d(t, blk));
    const uint16_t bits = enc_f16_bits((float)(d * gain));
    if (bits & 0x7fff) enc_grid_set_d(t, blk, bits);
}

ENC_INLINE void enc_pack_IQ2_XXS(void *blk, const struct grid_block *b) {
    struct blk_IQ2_XXS *o = (struct blk_IQ2_XXS *)blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int k = 0; k < 8; k++) { /* four entries, then four sign numbers and the scale */
        uint32_t entries = 0, rest = (uint32_t)b->sc[k] << 28;
        for (int l = 0; l < 4; l++) {
            entries |= (uint32_t)b->index[4 * k + l] << (8 * l);
            rest |= (uint32_t)(b->sign[4 * k + l] & 127) << (7 * l);
        }
        store_u32((uint8_t *)o->qs + 8 * k, entries);
        store_u32((uint8_t *)o->qs + 8 * k + 4, rest);
    }
}

ENC_INLINE void enc_pack_IQ2_XS(void *blk, const struct grid_block *b) {
    struct blk_IQ2_XS *o = (struct blk_IQ2_XS *)blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int h = 0; h < 32; h++) o->qs[h] = (uint16_t)(b->index[h] | (b->sign[h] & 127) << 9);
    for (int k = 0; k < 16; k++) o->scales[k / 2] |= (uint8_t)(b->sc[k] << (4 * (k % 2)));
}

ENC_INLINE void enc_pack_IQ2_S(void *blk, const struct grid_block *b) {
    struct blk_IQ2_S *o = (struct blk_IQ2_S *)blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int h = 0; h < 32; h++) {
        o->qs[h] = (uint8_t)b->index[h];
        o->qs[32 + h] = b->sign[h];
        o->qh[h / 4] |= (uint8_t)(b->index[h] >> 8 << (2 * (h % 4)));
    }
    for (int k = 0; k < 16; k++) o->scales[k / 2] |= (uint8_t)(b->sc[k] << (4 * (k % 2)));
}

ENC_INLINE void enc_pack_IQ3_XXS(void *blk, const struct grid_block *b) {
    struct blk_IQ3_XXS *o = (struct blk_IQ3_XXS *)blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int h = 0; h < 64; h++) o->qs[h] = (uint8_t)b->index[h];
    for (int k = 0; k < 8; k++) { /* four sign numbers and the scale */
        uint32_t rest = (uint32_t)b->sc[k] << 28;
        for (int l = 0; l < 4; l++) rest |= (uint32_t)(b->sign[4 * k + l] & 127) << (7 * l);
        store_u32(o->qs + 64 + 4 * k, rest);
    }
}

ENC_INLINE void enc_pack_IQ3_S(void *blk, const struct grid_block *b) {
    struct blk_IQ3_S *o = (struct blk_IQ3_S *)blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int h = 0; h < 64; h++) {
        o->qs[h] = (uint8_t)b->index[h];
        o->qh[h / 8] |= (uint8_t)(b->index[h] >> 8 << (h % 8));
    }
    memcpy(o->signs, b->sign, sizeof o->signs);
    for (int k = 0; k < 8; k++) o->scales[k / 2] |= (uint8_t)(b->sc[k] << (4 * (k % 2)));
}

ENC_INLINE void enc_pack_IQ1_S(void *blk, const struct grid_block *b) {
    struct blk_IQ1_S *o = (struct blk_IQ1_S *)blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int k = 0; k < 8; k++) { /* high index bits, scale, shift */
        unsigned word = (unsigned)b->sc[k] << 12 | (b->index[4 * k] >= KERN_IQ1 ? 0x8000u : 0);
        for (int l = 0; l < 4; l++) {
            const unsigned index = b->index[4 * k + l] % KERN_IQ1;
            o->qs[4 * k + l] = (uint8_t)index;
            word |= index >> 8 << (3 * l);
        }
        o->qh[k] = (uint16_t)word;
    }
}

ENC_INLINE void enc_pack_IQ1_M(void *blk, const struct grid_block *b) {
    struct blk_IQ1_M *o = (struct blk_IQ1_M *)blk;
    memset(o, 0, sizeof *o);
    for (int h = 0; h < 32; h++) { /* index: 11 bits, then the shift */
        o->qs[h] = (uint8_t)b->index[h];
        o->qh[h / 2] |= (uint8_t)(b->index[h] >> 8 << (4 * (h % 2)));
    }
    for (int i = 0; i < 4; i++) {
        unsigned word = 0;
        for (int k = 0; k < 4; k++) word |= (unsigned)b->sc[4 * i + k] << (3 * k);
        o->scales[2 * i] = (uint8_t)word;
        o->scales[2 * i + 1] = (uint8_t)(word >> 8);
    }
    enc_grid_set_d(QT_IQ1_M, (uint8_t *)blk, enc_f16_bits(b->d));
}

#endif
