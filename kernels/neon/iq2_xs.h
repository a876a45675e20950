// SPDX-License-Identifier: MIT
/* kernels/neon/iq2_xs.h - IQ2_XS with NEON: unpacked rows (iq.h) and packed ones. Layout:
 * kernels/ref/iq2_xs.c. Included once, by kernels/packed.c. */
#include "kernels/neon/grid.h"
#include "kernels/neon/iq.h"
#include "kernels/ops.h"
#include "kernels/rows/iq2_xs.h"

static void take_apart(const void *w, const struct kern_grid *g, struct iq_apart *x) {
    const struct blk_IQ2_XS *b = w;
    x->d = half(load_u16(&b->d)) * 0.125f;
    for (int h = 0; h < 32; h += 2) {
        const unsigned p = b->qs[h], q = b->qs[h + 1];
        iq_put(x, 8 * h, iq_two(g->iq2_xs, p & 511, q & 511), g->sign[p >> 9], g->sign[q >> 9]);
    }
    iq_scales_16(x, b->scales);
}
