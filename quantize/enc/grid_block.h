// SPDX-License-Identifier: MIT
/* quantize/enc/grid_block.h - loading of a super-block of a grid type for the searches. */
#ifndef HONE_QUANTIZE_ENC_GRID_BLOCK_H
#define HONE_QUANTIZE_ENC_GRID_BLOCK_H

#include "quantize/enc/lanes_block.h"

/* Loads 256 weights and computes their search weights. Returns false if they are practically
 * zero. m->x and m->w may share memory with d. */
LANE_FN bool grid_load(const struct grid_how *h, const struct wrule *rule,
                       const struct lanes_mem *m, const float *x, const float *imp,
                       struct grid_data *d) {
    const struct grid_spec *s = h->s;
    const bool signs = s->shift == SHIFT_NONE;
    if (!load(m->x, x, QK, grid_limit(s), s->sub)) return false;
    block_weights(m->w, m->x, imp, QK, rule, 0, s->sub);
    for (int k = 0; k < QK / s->sub; k++) {
        vf top = splat(0);
        for (int i = k * s->sub; i < (k + 1) * s->sub; i += LANES) {
            const vf v = loadv(m->x + at(i, s->sub)), w = loadv(m->w + at(i, s->sub));
            const vf a = signs ? absv(v) : v;
            const unsigned minus = bits(v < splat(0));
            storev(d->x + i, v);
            storev(d->w + i, w);
            storev(d->wa + i, w * a);
            top = maxv(absv(v), top);
            if (lane_one()) d->sign[i / 8] = signs ? (uint8_t)minus : 0;
        }
        const float most = lane_max(0, top);
        if (lane_one()) d->top[k] = most;
    }
    lanes_sync();
    return true;
}

#endif
