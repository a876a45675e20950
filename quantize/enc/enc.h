// SPDX-License-Identifier: MIT
/* quantize/enc/enc.h - encoders: f32 rows to blocks of one type. Each file exports one const
 * struct; enc_find() is the table. Defined by scalar code, built with -ffp-contract=off, which the
 * vector code computes lane by lane: same bytes everywhere. Input is finite (the driver refuses NaN
 * and Inf by name). */
#ifndef HONE_QUANTIZE_ENC_ENC_H
#define HONE_QUANTIZE_ENC_ENC_H

#include <stdint.h>

#include "containers/qtype.h"
#include "kernels/kern.h"

enum search { SEARCH_FAST, SEARCH_BEST, SEARCH_CONVENTIONAL };
/* Returns "fast", "best" or "conventional". */
const char *search_name(enum search s);
/* How column importance becomes search weights. */
enum wplain { WP_ONE, WP_ABS /* |x| */, WP_RMS_ABS /* rms(sub-block) + |x| */, WP_SQ /* x^2 */ };
struct wrule {
    int sigma;         /* importance * sqrt(sigma * mean(x^2) + x^2); 0: importance alone */
    int scope;         /* weights the mean runs over: 32, 256, or 0 for the row */
    enum wplain plain; /* without importance */
};

struct enc_blocks;
struct enc_fp4;
struct enc {
    enum qtype type;
    /* Encodes one row of n weights, a multiple of the block, to dst. imp[n] is the importance of
     * each column (the mean squared input), or NULL where there is none. */
    void (*row)(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search);
    const struct enc_blocks *blocks; /* its way to opened blocks (open.h); NULL: it does without */
    const struct enc_fp4
        *fp4; /* the layout of sixteen-level floats (fp4.h); NULL: another kind of type */
    /* The weights of the search: llama.cpp's formula, and what was measured to give the lower
     * divergence (docs/design/quantize.md). */
    struct wrule conventional, chosen;
};
const struct enc *enc_find(enum qtype t); /* NULL: cannot be written */
/* Lets the calling thread's context (base/ctx.h) search with at most this instruction set; the
 * default is the best of this machine. The bytes are the same with all; for tests and measurements,
 * not while rows are being encoded. */
void enc_use(enum kern_isa upto);

#endif
