// SPDX-License-Identifier: MIT
/* quantize/enc/raw.c - encoding of rows through raw blocks, with or without balanced scales. */
#include "quantize/enc/super.h"

const struct enc_blocks *enc_blocks_find(enum qtype t) {
    const struct enc *enc = enc_find(t);
    return enc ? enc->blocks : NULL;
}

void enc_rescale(struct enc_raw *o, int64_t n_blocks, double num, double den) {
    for (int64_t b = 0; b < n_blocks; b++) enc_rescale_block(&o[b], enc_gain(num, den));
}

struct enc_how enc_how_of(const struct enc_spec *s, enum search search) {
    const struct enc_how h = {s, search, enc_wrule(s->type, SEARCH_CONVENTIONAL),
                              enc_wrule(s->type, search), 0};
    return h;
}

bool enc_needs_row_mean2(const struct enc_how *h) {
    return (h->rule.scope == 0 && h->rule.sigma) ||
           (h->search == SEARCH_BEST && h->conv.scope == 0 && h->conv.sigma);
}

void enc_raw_blocks(const struct enc_blocks *eb, const float *x, const float *imp, int64_t n_blocks,
                    enum search search, float row_mean2, struct enc_raw *o) {
    struct enc_how h = enc_how_of(eb->spec, search);
    h.row_mean2 = row_mean2;
    enc_lanes()->open[eb->spec->family](&h, x, imp, n_blocks, o);
}

/* Returns the mean square of a row if the type's rule averages over the row, else 0. */
static float row_mean2(const struct enc_blocks *eb, const float *x, const float *imp, int64_t n,
                       enum search search) {
    const struct enc_how h = enc_how_of(eb->spec, search);
    return imp && enc_needs_row_mean2(&h) ? enc_mean2(x, n) : 0;
}

void enc_row(const struct enc_blocks *eb, const float *x, const float *imp, int64_t n, void *dst,
             enum search search) {
    const struct qtype_info *qi = qtype_info(eb->spec->type);
    const int64_t n_blocks = n / qi->block_elems;
    const float mean2 = row_mean2(eb, x, imp, n, search);
    struct enc_raw o[8];
    for (int64_t b = 0; b < n_blocks; b += 8) {
        const int64_t at = b * qi->block_elems, m = n_blocks - b < 8 ? n_blocks - b : 8;
        enc_raw_blocks(eb, x + at, imp ? imp + at : NULL, m, search, mean2, o);
        for (int64_t i = 0; i < m; i++) eb->pack(&o[i], (uint8_t *)dst + (b + i) * qi->block_bytes);
    }
}

void enc_row_balanced(const struct enc_blocks *eb, const float *x, const float *imp, int64_t n,
                      void *dst, enum search search, struct enc_raw *o) {
    const struct qtype_info *qi = qtype_info(eb->spec->type);
    const struct enc_lanes *lanes = enc_lanes();
    const int64_t n_blocks = n / qi->block_elems;
    double sums[2] = {0, 0};
    enc_raw_blocks(eb, x, imp, n_blocks, search, row_mean2(eb, x, imp, n, search), o);
    for (int64_t b = 0; b < n_blocks; b++) {
        const int64_t at = b * qi->block_elems;
        lanes->balance(&o[b], x + at, imp ? imp + at : NULL, sums);
    }
    enc_rescale(o, n_blocks, sums[0], sums[1]);
    for (int64_t b = 0; b < n_blocks; b++) eb->pack(&o[b], (uint8_t *)dst + b * qi->block_bytes);
}
