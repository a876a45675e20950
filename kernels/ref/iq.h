// SPDX-License-Identifier: MIT
/* kernels/ref/iq.h - reference loops of the IQ1, IQ2 and IQ3 formats, w = d * unit * (2s+1) *
 * code. A type's file supplies, per block, the half-precision bits of d, the odd scale 2s+1 of
 * sub-block k and the integer code of weight i. Products of codes and activations are summed
 * exactly. */
#ifndef HONE_KERNELS_REF_IQ_H
#define HONE_KERNELS_REF_IQ_H

#include "base/bytes.h"
#include "base/fp.h"
#include "containers/qtype.h"
#include "kernels/grid.h"

#define IQ_LOOP static inline __attribute__((always_inline))

typedef uint16_t (*iq_super_fn)(const void *blk);
typedef int (*iq_scale_fn)(const void *blk, int k);
typedef int (*iq_code_fn)(const void *blk, const struct kern_grid *g, int i);

/* Returns the super scale of most types, the first field of a block. */
static inline uint16_t iq_first(const void *blk) {
    return load_u16(blk);
}

/* Decodes blocks of `size` bytes whose sub-blocks have `sub` weights. */
IQ_LOOP void iq_decode(const uint8_t *w, int64_t size, int sub, float unit, float *dst, int64_t n,
                       iq_super_fn super, iq_scale_fn scale, iq_code_fn code) {
    const struct kern_grid *g = kern_grid_get();
    for (int64_t b = 0; b < n / QK; b++, w += size, dst += QK) {
        const float d = fp_f16_to_f32(super(w)) * unit;
        for (int i = 0; i < QK; i++) dst[i] = d * (float)scale(w, i / sub) * (float)code(w, g, i);
    }
}

IQ_LOOP float iq_dot(const uint8_t *w, int64_t size, int sub, float unit, const struct blk_Q8_K *y,
                     int64_t n, iq_super_fn super, iq_scale_fn scale, iq_code_fn code) {
    const struct kern_grid *g = kern_grid_get();
    double sum = 0;
    for (int64_t b = 0; b < n / QK; b++, w += size, y++) {
        int s = 0;
        for (int k = 0; k < QK / sub; k++) {
            int sk = 0;
            for (int i = sub * k; i < sub * (k + 1); i++) sk += code(w, g, i) * y->qs[i];
            s += scale(w, k) * sk;
        }
        sum += (double)(fp_f16_to_f32(super(w)) * unit) * (double)y->d * s;
    }
    return (float)sum;
}

#endif
