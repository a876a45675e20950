// SPDX-License-Identifier: MIT
/* quantize/enc/pack.h - packing of raw blocks (raw.h) into each type's bytes, on CPU and device.
 * Layouts: containers/qtype.h. */
#ifndef HONE_QUANTIZE_ENC_PACK_H
#define HONE_QUANTIZE_ENC_PACK_H

#include <string.h>

#include "base/bytes.h"
#include "quantize/enc/raw.h"

/* Calls X(type) for each type that has raw blocks. */
#define ENC_RAW_TYPES(X)                                                                           \
    X(Q4_0)                                                                                        \
    X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(IQ4_NL) X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_XS)

/* Packs 8 six-bit scales and 8 six-bit minima into 12 bytes (Q4_K, Q5_K). */
ENC_INLINE void enc_pack_scale_min(uint8_t out[12], const int16_t *sc, const int16_t *mn) {
    for (int k = 0; k < 4; k++) {
        out[k] = (uint8_t)(sc[k] | (sc[k + 4] >> 4) << 6);
        out[k + 4] = (uint8_t)(mn[k] | (mn[k + 4] >> 4) << 6);
        out[k + 8] = (uint8_t)((sc[k + 4] & 15) | (mn[k + 4] & 15) << 4);
    }
}

ENC_INLINE void enc_pack_Q4_0(const struct enc_raw *b, void *blk) {
    struct blk_Q4_0 *o = (struct blk_Q4_0 *)blk;
    o->d = enc_f16_bits(b->d);
    for (int i = 0; i < 16; i++) o->qs[i] = (uint8_t)((b->l[i] + 8) | (b->l[i + 16] + 8) << 4);
}

ENC_INLINE void enc_pack_Q4_1(const struct enc_raw *b, void *blk) {
    struct blk_Q4_1 *o = (struct blk_Q4_1 *)blk;
    o->d = enc_f16_bits(b->d);
    o->m = enc_f16_bits(b->m);
    for (int i = 0; i < 16; i++) o->qs[i] = (uint8_t)(b->l[i] | (b->l[i + 16]) << 4);
}

/* Packs the codes l + `add` in five bits each: low nibbles, two per byte, then all high bits. */
ENC_INLINE void enc_pack_five(uint8_t qs[16], uint8_t qh[4], const int8_t *l, int add) {
    uint32_t high = 0;
    for (int i = 0; i < 16; i++) {
        int lo = l[i] + add, hi = l[i + 16] + add;
        qs[i] = (uint8_t)((lo & 15) | (hi & 15) << 4);
        high |= (uint32_t)(lo >> 4) << i | (uint32_t)(hi >> 4) << (i + 16);
    }
    store_u32(qh, high);
}

ENC_INLINE void enc_pack_Q5_0(const struct enc_raw *b, void *blk) {
    struct blk_Q5_0 *o = (struct blk_Q5_0 *)blk;
    o->d = enc_f16_bits(b->d);
    enc_pack_five(o->qs, o->qh, b->l, 16);
}

ENC_INLINE void enc_pack_Q5_1(const struct enc_raw *b, void *blk) {
    struct blk_Q5_1 *o = (struct blk_Q5_1 *)blk;
    o->d = enc_f16_bits(b->d);
    o->m = enc_f16_bits(b->m);
    enc_pack_five(o->qs, o->qh, b->l, 0);
}

ENC_INLINE void enc_pack_Q8_0(const struct enc_raw *b, void *blk) {
    struct blk_Q8_0 *o = (struct blk_Q8_0 *)blk;
    o->d = enc_f16_bits(b->d);
    for (int i = 0; i < 32; i++) o->qs[i] = b->l[i];
}

ENC_INLINE void enc_pack_IQ4_NL(const struct enc_raw *b, void *blk) {
    struct blk_IQ4_NL *o = (struct blk_IQ4_NL *)blk;
    o->d = enc_f16_bits(b->d);
    for (int i = 0; i < 16; i++)
        o->qs[i] = (uint8_t)(enc_level_index(b->l[i]) | (enc_level_index(b->l[i + 16])) << 4);
}

ENC_INLINE void enc_pack_Q2_K(const struct enc_raw *b, void *blk) {
    struct blk_Q2_K *o = (struct blk_Q2_K *)blk;
    o->d = enc_f16_bits(b->d);
    o->dmin = enc_f16_bits(b->m);
    for (int k = 0; k < 16; k++) o->scales[k] = (uint8_t)(b->sc[k] | b->mn[k] << 4);
    for (int i = 0; i < 64; i++) { /* byte i: elements i%32 + 128*(i/32) + 32*t at bits 2t */
        const int8_t *q = b->l + 128 * (i / 32) + i % 32;
        o->qs[i] = (uint8_t)(q[0] | q[32] << 2 | q[64] << 4 | q[96] << 6);
    }
}

ENC_INLINE void enc_pack_Q3_K(const struct enc_raw *b, void *blk) {
    struct blk_Q3_K *o = (struct blk_Q3_K *)blk;
    memset(o->scales, 0, sizeof o->scales);
    o->d = enc_f16_bits(b->d);
    for (int k = 0; k < 16; k++) { /* 6 bits: low 4 in bytes 0-7, high 2 in bytes 8-11 */
        int sc = b->sc[k] + 32;
        o->scales[k % 8] |= (uint8_t)((sc & 15) << (k < 8 ? 0 : 4));
        o->scales[8 + k % 4] |= (uint8_t)((sc >> 4) << (2 * (k / 4)));
    }
    for (int h = 0; h < 2; h++) /* low two bits of code + 4 */
        for (int i = 0; i < 32; i++) {
            const int8_t *q = b->l + 128 * h + i;
            o->qs[32 * h + i] =
                (uint8_t)((q[0] & 3) | (q[32] & 3) << 2 | (q[64] & 3) << 4 | (q[96] & 3) << 6);
        }
    for (int i = 0; i < 32; i++) { /* bit set: code >= 0, bit 2 of code + 4 */
        unsigned below = 0;
        for (int k = 0; k < 8; k++) below |= (unsigned)(b->l[32 * k + i] & 0x80) >> (7 - k);
        o->hmask[i] = (uint8_t)~below;
    }
}

ENC_INLINE void enc_pack_Q4_K(const struct enc_raw *b, void *blk) {
    struct blk_Q4_K *o = (struct blk_Q4_K *)blk;
    o->d = enc_f16_bits(b->d);
    o->dmin = enc_f16_bits(b->m);
    enc_pack_scale_min(o->scales, b->sc, b->mn);
    for (int g = 0; g < 4; g++)
        for (int i = 0; i < 32; i++) {
            int lo = b->l[64 * g + i], hi = b->l[64 * g + 32 + i];
            o->qs[32 * g + i] = (uint8_t)((lo & 15) | (hi & 15) << 4);
        }
}

ENC_INLINE void enc_pack_Q5_K(const struct enc_raw *b, void *blk) {
    struct blk_Q5_K *o = (struct blk_Q5_K *)blk;
    o->d = enc_f16_bits(b->d);
    o->dmin = enc_f16_bits(b->m);
    enc_pack_scale_min(o->scales, b->sc, b->mn);
    for (int g = 0; g < 4; g++)
        for (int i = 0; i < 32; i++) {
            int lo = b->l[64 * g + i], hi = b->l[64 * g + 32 + i];
            o->qs[32 * g + i] = (uint8_t)((lo & 15) | (hi & 15) << 4);
        }
    for (int i = 0; i < 32; i++) {
        unsigned h = 0;
        for (int k = 0; k < 8; k++) h |= (unsigned)(b->l[32 * k + i] >> 4) << k;
        o->qh[i] = (uint8_t)h;
    }
}

ENC_INLINE void enc_pack_Q6_K(const struct enc_raw *b, void *blk) {
    struct blk_Q6_K *o = (struct blk_Q6_K *)blk;
    o->d = enc_f16_bits(b->d);
    for (int k = 0; k < 16; k++) o->scales[k] = (int8_t)b->sc[k];
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 32; i++) {
            const int8_t *q = b->l + 128 * h + i;
            int a = q[0] + 32, c = q[32] + 32, e = q[64] + 32, g = q[96] + 32;
            o->ql[64 * h + i] = (uint8_t)((a & 15) | (e & 15) << 4);
            o->ql[64 * h + 32 + i] = (uint8_t)((c & 15) | (g & 15) << 4);
            o->qh[32 * h + i] = (uint8_t)(a >> 4 | (c >> 4) << 2 | (e >> 4) << 4 | (g >> 4) << 6);
        }
}

ENC_INLINE void enc_pack_IQ4_XS(const struct enc_raw *b, void *blk) {
    struct blk_IQ4_XS *o = (struct blk_IQ4_XS *)blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int k = 0; k < 8; k++) { /* 6 bits, biased by 32 */
        int sc = b->sc[k] + 32;
        o->scales_l[k / 2] |= (uint8_t)((sc & 15) << (4 * (k % 2)));
        o->scales_h = (uint16_t)(o->scales_h | (sc >> 4) << (2 * k));
        for (int i = 0; i < 16; i++) {
            int lo = enc_level_index(b->l[32 * k + i]), hi = enc_level_index(b->l[32 * k + 16 + i]);
            o->qs[16 * k + i] = (uint8_t)(lo | hi << 4);
        }
    }
}

#endif
