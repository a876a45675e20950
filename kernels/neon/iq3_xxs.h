// SPDX-License-Identifier: MIT
/* kernels/neon/iq3_xxs.h - IQ3_XXS with NEON: unpacked rows (iq.h). Layout: kernels/ref/iq3_xxs.c.
 * Included once by an ISA's file for the type. */
#include "kernels/neon/grid.h"
#include "kernels/neon/iq.h"
#include "kernels/ops.h"
#include "kernels/rows/iq3_xxs.h"

static void take_apart(const void *w, const struct kern_grid *g, struct iq_apart *x) {
    const struct blk_IQ3_XXS *b = w;
    const uint8_t *p = b->qs;
    x->d = half(load_u16(&b->d)) * 0.25f;
    for (int k = 0; k < 8; k++, p += 8) {
        const uint32_t s = load_u32(b->qs + 64 + 4 * k);
        iq_put(x, 32 * k, iq_four(g->iq3_xxs, p[0], p[1], p[2], p[3]), g->sign[s & 127],
               g->sign[s >> 7 & 127]);
        iq_put(x, 32 * k + 16, iq_four(g->iq3_xxs, p[4], p[5], p[6], p[7]), g->sign[s >> 14 & 127],
               g->sign[s >> 21 & 127]);
        iq_scale_32(x, k, s >> 28);
    }
}
