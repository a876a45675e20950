// SPDX-License-Identifier: MIT
/* quantize/enc/open.c - which types can be opened, and rows whose scales are balanced. */
#include "quantize/enc/open.h"

static const struct enc_blocks *const table[QT_COUNT] = {
    // clang-format off
    [QT_Q4_0] = &enc_blocks_q4_0,
    [QT_Q4_1] = &enc_blocks_q4_1,
    [QT_Q5_0] = &enc_blocks_q5_0,
    [QT_Q5_1] = &enc_blocks_q5_1,
    [QT_Q8_0] = &enc_blocks_q8_0,
    [QT_Q2_K] = &enc_blocks_q2_k,
    [QT_Q3_K] = &enc_blocks_q3_k,
    [QT_Q4_K] = &enc_blocks_q4_k,
    [QT_Q5_K] = &enc_blocks_q5_k,
    [QT_Q6_K] = &enc_blocks_q6_k,
    [QT_IQ4_NL] = &enc_blocks_iq4_nl,
    [QT_IQ4_XS] = &enc_blocks_iq4_xs,
    // clang-format on
};

const struct enc_blocks *enc_blocks_find(enum qtype t) {
    return (unsigned)t < QT_COUNT ? table[t] : NULL;
}

void enc_rescale(struct enc_open *o, int64_t n_blocks, double num, double den) {
    double gain = den > 0 ? num / den : 1;
    gain = gain > 1.25 ? 1.25 : gain < 0.8 ? 0.8 : gain;
    for (int64_t b = 0; b < n_blocks; b++) {
        float d = enc_f16((float)((double)o[b].d * gain));
        if (d == 0) continue;
        o[b].d = d;
        o[b].m = enc_f16((float)((double)o[b].m * gain));
    }
}

void enc_row_balanced(const struct enc_blocks *eb, const float *x, const float *imp, int64_t n,
                      void *dst, enum search search, struct enc_open *o) {
    const struct qtype_info *qi = qtype_info(eb->type);
    int64_t n_blocks = n / qi->block_elems;
    double num = 0, den = 0;
    for (int64_t b = 0; b < n_blocks; b++) {
        int64_t at = b * qi->block_elems;
        eb->open(x + at, imp ? imp + at : NULL, search, &o[b]);
        for (int i = 0; i < o[b].n; i++) {
            double w = imp ? (double)imp[at + i] : 1, v = (double)x[at + i];
            num += w * v * v;
            den += w * v * (double)enc_open_value(&o[b], i);
        }
    }
    enc_rescale(o, n_blocks, num, den);
    for (int64_t b = 0; b < n_blocks; b++) eb->close(&o[b], (uint8_t *)dst + b * qi->block_bytes);
}
