// SPDX-License-Identifier: MIT
/* quantize/enc/enc.h - encoders: turn f32 rows into blocks of one type.
 *
 * Each type's file exports one const struct; enc_find() looks it up. Scalar code, built with
 * -ffp-contract=off, defines the result; vector code computes the same lane by lane, so the bytes
 * are equal everywhere. Input must be finite: the driver rejects NaN and Inf with an error. */
#ifndef HONE_QUANTIZE_ENC_ENC_H
#define HONE_QUANTIZE_ENC_ENC_H

#include <stdint.h>

#include "containers/qtype.h"
#include "kernels/kern.h"

enum search { SEARCH_FAST, SEARCH_BEST, SEARCH_CONVENTIONAL };
/* Returns "fast", "best" or "conventional". */
const char *search_name(enum search s);
/* Search weights without importance. */
enum wplain { WP_ONE, WP_ABS /* |x| */, WP_RMS_ABS /* rms(sub-block) + |x| */, WP_SQ /* x^2 */ };
struct wrule {
    int sigma;         /* w = importance * sqrt(sigma * mean(x^2) + x^2); 0: importance */
    int scope;         /* scope of mean(x^2), in weights: 32, 256, or 0 for the whole row */
    enum wplain plain; /* rule without importance */
};

struct enc_blocks;
struct enc_fp4;
struct enc {
    enum qtype type;
    /* Encodes one row of n weights, a multiple of the block size, to dst. imp[n] is the importance
     * of each column (its mean squared input), or NULL. */
    void (*row)(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search);
    const struct enc_blocks *blocks; /* raw-block conversion (raw.h); NULL: not supported */
    const struct enc_fp4 *fp4; /* layout of sixteen-level floats (fp4.h); NULL: not an FP4 type */
    /* Search weights: llama.cpp's formula, and the formula that gave the lower divergence when
     * measured (docs/design/quantize.md). */
    struct wrule conventional, chosen;
    float largest; /* largest magnitude that blocks hold; 0: any, or that of the type's spec */
};
const struct enc *enc_find(enum qtype t); /* NULL: cannot be written */
/* Returns the largest weight that a type can hold; its encoder clamps larger ones. */
float enc_largest(enum qtype t);
/* Limits searches in the calling thread's context (base/ctx.h) to this instruction set; by
 * default they use the best one available. The bytes are the same. For tests and measurements;
 * do not call while rows are being encoded. */
void enc_use(enum kern_isa upto);

#endif
