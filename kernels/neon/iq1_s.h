// SPDX-License-Identifier: MIT
/* kernels/neon/iq1_s.h - IQ1_S with NEON: unpacked rows (iq.h) and packed ones. Layout:
 * kernels/ref/iq1_s.c. Included once, by kernels/packed.c. */
#include "kernels/neon/grid.h"
#include "kernels/neon/iq.h"
#include "kernels/ops.h"
#include "kernels/rows/iq1_s.h"

static void take_apart(const void *w, const struct kern_grid *g, struct iq_apart *x) {
    const struct blk_IQ1_S *b = w;
    x->d = half(load_u16(&b->d)) * 0.125f;
    for (int k = 0; k < 8; k++) {
        const unsigned word = b->qh[k], down = word >> 15 ? KERN_IQ1 : 0;
        for (int l = 0; l < 4; l++)
            memcpy(x->code + 32 * k + 8 * l,
                   g->iq1[down + (b->qs[4 * k + l] | (word >> 3 * l & 7) << 8)], 8);
        iq_scale_32(x, k, word >> 12 & 7);
    }
}
