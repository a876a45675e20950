// SPDX-License-Identifier: MIT
/* quantize/enc/tq1_0.c - TQ1_0 encoder: 256 weights of three levels, five to a byte. Search:
 * lowbit.c. */
#include "quantize/enc/lowbit.h"
#include "quantize/enc/types.h"

#include <string.h>

/* Appends a trit to a number below 243. Decoders expect the number as a fraction of 256, from which
 * multiplying by 3 carries out one digit at a time. */
static void append_trit(uint8_t *byte, int level) {
    *byte = (uint8_t)(3 * *byte + level + 1);
}
/* Returns the byte from which repeated multiplication by 3 carries out the five trits of v. */
static uint8_t as_fraction(uint8_t v) {
    return (uint8_t)((v * 256 + 242) / 243);
}

/* Writes the scale and codes found in the block's format. */
static void pack(void *blk, const struct low_block *b) {
    struct blk_TQ1_0 *o = blk;
    memset(o, 0, sizeof *o);
    o->d = enc_f16_bits(b->d);
    for (int i = 0; i < 5; i++) { /* the first trit is the most significant */
        for (int k = 0; k < 32; k++) append_trit(&o->qs[k], b->l[32 * i + k]);
        for (int k = 0; k < 16; k++) append_trit(&o->qs[32 + k], b->l[160 + 16 * i + k]);
        for (int k = 0; k < 4; k++) append_trit(&o->qh[k], i < 4 ? b->l[240 + 4 * i + k] : -1);
    }
    for (int k = 0; k < 48; k++) o->qs[k] = as_fraction(o->qs[k]);
    for (int k = 0; k < 4; k++) o->qh[k] = as_fraction(o->qh[k]);
}

/* Encodes a row of n weights, whole blocks; imp: importance of each, or NULL. */
static void row(const float *restrict x, const float *restrict imp, int64_t n, void *restrict dst,
                enum search search) {
    static const struct low_spec spec = {QT_TQ1_0, 256, -1, 1, false};
    enc_low_row(&spec, x, imp, n, dst, search, pack);
}

const struct enc enc_type_TQ1_0 = {
    .type = QT_TQ1_0,
    .row = row,
    .conventional = {0, 256, WP_ONE},
    .chosen = {0, 256, WP_RMS_ABS},
    .largest = 65504,
};
