// SPDX-License-Identifier: MIT
/* quantize/enc/raw.h - the raw block, the form between search and packing: scales, codes and their
 * meaning, the same for every type whose weights are d*sc[k]*l + m*mn[k] in runs of `sub` weights.
 * Error feedback changes its codes and scales without knowing a layout. */
#ifndef HONE_QUANTIZE_ENC_RAW_H
#define HONE_QUANTIZE_ENC_RAW_H

#include "quantize/enc/search.h"

struct enc_raw {
    int n, sub; /* weights per block; weights per sub-block */
    struct levels lv;
    float d, m;       /* exact f16 values; weight i of sub-block k: d*sc[k]*l[i] + m_sign*m*mn[k] */
    float m_sign;     /* 0: the type has no minimum */
    int sc_lo, sc_hi; /* equal: sub-scales are fixed */
    int mn_hi;        /* sub-minima 0..mn_hi; 0: fixed */
    int16_t sc[ENC_NSUB], mn[ENC_NSUB];
    int8_t l[QK]; /* level values */
};
ENC_INLINE float enc_raw_step(const struct enc_raw *o, int k) {
    return o->d * (float)o->sc[k];
}
ENC_INLINE float enc_raw_base(const struct enc_raw *o, int k) {
    return o->m_sign * (o->m * (float)o->mn[k]);
}
ENC_INLINE float enc_raw_value(const struct enc_raw *o, int i) {
    int k = i / o->sub;
    return enc_raw_step(o, k) * (float)o->l[i] + enc_raw_base(o, k);
}
struct enc_spec;
/* Conversions between a type's blocks and raw blocks. */
struct enc_blocks {
    const struct enc_spec *spec;
    /* Packs a raw block; its codes and scales may have changed since the search. */
    void (*pack)(const struct enc_raw *restrict o, void *restrict blk);
};
/* Searches n_blocks blocks of weights and stores their scales and codes in o. row_mean2 is the
 * mean of x^2 over their row. imp NULL: no importance. */
void enc_raw_blocks(const struct enc_blocks *eb, const float *x, const float *imp, int64_t n_blocks,
                    enum search search, float row_mean2, struct enc_raw *o);
/* Encodes a row of n weights through raw blocks. */
void enc_row(const struct enc_blocks *eb, const float *x, const float *imp, int64_t n, void *dst,
             enum search search);
const struct enc_blocks *enc_blocks_find(enum qtype t); /* NULL: not supported */

/* Encodes a row as enc->row does, then multiplies d and m of all its blocks so that the
 * importance-weighted product of the row with itself is preserved: least squares alone shrinks
 * every row by its squared relative error, always in the same direction. o: scratch for n/block
 * blocks. */
void enc_row_balanced(const struct enc_blocks *eb, const float *x, const float *imp, int64_t n,
                      void *dst, enum search search, struct enc_raw *o);
/* Returns the factor for scales, num/den limited to 0.8..1.25; 1 if den <= 0. */
ENC_INLINE double enc_gain(double num, double den) {
    double gain = den > 0 ? num / den : 1;
    return gain > 1.25 ? 1.25 : gain < 0.8 ? 0.8 : gain;
}
ENC_INLINE void enc_rescale_block(struct enc_raw *o, double gain) {
    float d = enc_f16((float)((double)o->d * gain));
    if (d == 0) return;
    o->d = d;
    o->m = enc_f16((float)((double)o->m * gain));
}
/* Multiplies the blocks' scales by enc_gain. */
void enc_rescale(struct enc_raw *o, int64_t n_blocks, double num, double den);

#endif
