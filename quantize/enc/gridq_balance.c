// SPDX-License-Identifier: MIT
/* quantize/enc/gridq_balance.c - row balancing for the IQ1, IQ2 and IQ3 formats; enc_row_balanced
 * (raw.h) is its counterpart for other types. These formats have no raw blocks, so their blocks are
 * decoded and d is raised in place. Least squares shrinks a row by its squared relative error,
 * which is 2 % at three bits and up to 18 % at 1.6. */
#include "kernels/kern.h"
#include "quantize/enc/grid_pack.h"

void enc_grid_balance(enum qtype t, const float *x, const float *imp, int64_t n, void *blocks) {
    const int64_t bytes = qtype_info(t)->block_bytes;
    uint8_t *blk = blocks;
    struct kern k;
    double num = 0, den = 0;
    /* Every instruction set decodes the same values, so the reference suffices. */
    kern_init(&k, KERN_REF);
    for (int64_t b = 0; b < n / QK; b++) {
        float y[QK];
        k.op[t].decode(blk + b * bytes, y, QK);
        for (int i = 0; i < QK; i++) {
            double term[2];
            enc_grid_terms(x[b * QK + i], imp ? &imp[b * QK + i] : NULL, y[i], term);
            num += term[0];
            den += term[1];
        }
    }
    const double gain = enc_gain(num, den);
    for (int64_t b = 0; b < n / QK; b++) enc_grid_raise(t, blk + b * bytes, gain);
}
