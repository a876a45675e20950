// SPDX-License-Identifier: MIT
/* quantize/enc/gridq_balance.c - enc_row_balanced (open.h) for the IQ1, IQ2 and IQ3 formats, whose
 * blocks are not open: decoded again, their d raised in place. Least squares shrinks a row by its
 * squared relative error, 2 % at three bits and up to 18 % at 1.6. */
#include "core/bytes.h"
#include "core/fp.h"
#include "kernels/codebook.h"
#include "kernels/kern.h"
#include "quantize/enc/gridq.h"
#include "quantize/enc/open.h"

static uint16_t get_d(enum qtype t, const uint8_t *blk) {
    return t == QT_IQ1_M ? kern_iq1_m_d((const struct blk_IQ1_M *)blk) : load_u16(blk);
}
static void set_d(enum qtype t, uint8_t *blk, uint16_t bits) {
    if (t == QT_IQ1_M)
        kern_iq1_m_set_d((struct blk_IQ1_M *)blk, bits);
    else
        store_u16(blk, bits);
}

void enc_grid_balance(enum qtype t, const float *x, const float *imp, int64_t n, void *blocks) {
    const int64_t bytes = qtype_info(t)->block_bytes;
    uint8_t *blk = blocks;
    struct kern k;
    double num = 0, den = 0;
    kern_init(&k, KERN_REF); /* every instruction set decodes the same values */
    for (int64_t b = 0; b < n / QK; b++) {
        float y[QK];
        k.op[t].decode(blk + b * bytes, y, QK);
        for (int i = 0; i < QK; i++) {
            const double xi = (double)x[b * QK + i], w = imp ? (double)imp[b * QK + i] : 1;
            num += w * xi * xi;
            den += w * xi * (double)y[i];
        }
    }
    const double gain = enc_gain(num, den);
    for (int64_t b = 0; b < n / QK; b++, blk += bytes) {
        const uint16_t d = enc_f16_bits((float)((double)fp_f16_to_f32(get_d(t, blk)) * gain));
        if (d & 0x7fff) set_d(t, blk, d);
    }
}
