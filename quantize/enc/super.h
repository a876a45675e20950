// SPDX-License-Identifier: MIT
/* quantize/enc/super.h - the two families of 256-weight super-blocks with integer sub-scales, and
 * the 32-weight blocks, searched without knowledge of their bit layouts: the type's file packs the
 * result. */
#ifndef HONE_QUANTIZE_ENC_SUPER_H
#define HONE_QUANTIZE_ENC_SUPER_H

#include "quantize/enc/open.h"
#include "quantize/enc/search.h"

/* x ~ d*sc[b]*q - dmin*mn[b]   (Q2_K, Q4_K, Q5_K) */
struct aff_spec {
    enum qtype type;
    int n_sub, sub; /* n_sub * sub = 256 */
    int qmax, smax; /* largest code; largest sub-scale and sub-minimum */
    struct aff_grid imp, plain;
    bool plain_abs; /* conventional search without importance minimises absolute error */
};
struct aff_block {
    float d, dmin; /* exact f16 values */
    uint8_t sc[ENC_NSUB], mn[ENC_NSUB];
    uint8_t q[QK];
};
/* All of one row: calls pack(blk, result) per super-block. */
void enc_aff_row(const struct aff_spec *s, const float *x, const float *imp, int64_t n, void *dst,
                 enum search search, void (*pack)(void *blk, const struct aff_block *b));
/* open.h: open and close, up to packing. */
void enc_aff_open(const struct aff_spec *s, const float *x, const float *imp, enum search search,
                  struct enc_open *o);
void enc_aff_close(const struct enc_open *o, struct aff_block *b);

/* The 12 bytes of 8 six-bit scales and 8 six-bit minima (Q4_K, Q5_K). */
void enc_pack_scale_min(uint8_t out[12], const uint8_t *sc, const uint8_t *mn);

/* x ~ d*sc[b]*l   (Q3_K, Q6_K, IQ4_XS) */
struct sym_spec {
    enum qtype type;
    int n_sub, sub;
    struct levels lv;
    int sc_lo, sc_hi;
};
struct sym_block {
    float d;
    int16_t sc[ENC_NSUB];
    int8_t l[QK]; /* level values */
};
void enc_sym_row(const struct sym_spec *s, const float *x, const float *imp, int64_t n, void *dst,
                 enum search search, void (*pack)(void *blk, const struct sym_block *b));
/* open.h: open and close, up to packing. */
void enc_sym_open(const struct sym_spec *s, const float *x, const float *imp, enum search search,
                  struct enc_open *o);
void enc_sym_close(const struct enc_open *o, struct sym_block *b);

/* 32 weights, x ~ d*l + m (m only for Q4_1, Q5_1). */
struct b32_spec {
    enum qtype type;
    struct levels lv;
    bool affine;
};
struct b32_block {
    float d, m; /* exact f16 values */
    int8_t l[32];
};
void enc_b32_row(const struct b32_spec *s, const float *x, const float *imp, int64_t n, void *dst,
                 enum search search, void (*pack)(void *blk, const struct b32_block *b));
/* open.h: open and close, up to packing. */
void enc_b32_open(const struct b32_spec *s, const float *x, const float *imp, enum search search,
                  struct enc_open *o);
void enc_b32_close(const struct enc_open *o, struct b32_block *b);

#endif
