// SPDX-License-Identifier: MIT
/* kernels/neon/iq2_s.h - IQ2_S with NEON: unpacked rows (iq.h) and packed ones. Layout:
 * kernels/ref/iq2_s.c. Included once, by kernels/packed.c. */
#include "kernels/neon/grid.h"
#include "kernels/neon/iq.h"
#include "kernels/ops.h"
#include "kernels/rows/iq2_s.h"

static void take_apart(const void *w, const struct kern_grid *g, struct iq_apart *x) {
    const struct blk_IQ2_S *b = w;
    x->d = half(load_u16(&b->d)) * 0.125f;
    for (int h = 0; h < 32; h += 2) {
        const unsigned high = (unsigned)b->qh[h / 4] >> 2 * (h % 4);
        iq_put(x, 8 * h,
               iq_two(g->iq2_s, b->qs[h] | (high & 3) << 8, b->qs[h + 1] | (high & 12) << 6),
               b->qs[32 + h], b->qs[33 + h]);
    }
    iq_scales_16(x, b->scales);
}
