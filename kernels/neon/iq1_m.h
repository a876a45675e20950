// SPDX-License-Identifier: MIT
/* kernels/neon/iq1_m.h - IQ1_M with NEON: unpacked rows (iq.h) and packed ones. Layout:
 * kernels/ref/iq1_m.c. Included once, by kernels/packed.c. */
#include "kernels/codebook.h"
#include "kernels/neon/grid.h"
#include "kernels/neon/iq.h"
#include "kernels/ops.h"
#include "kernels/rows/iq1_m.h"

static void take_apart(const void *w, const struct kern_grid *g, struct iq_apart *x) {
    const struct blk_IQ1_M *b = w;
    x->d = half(kern_iq1_m_d(b)) * 0.125f;
    for (int h = 0; h < 32; h++) {
        const unsigned high = (unsigned)b->qh[h / 2] >> 4 * (h % 2), down = high & 8 ? KERN_IQ1 : 0;
        memcpy(x->code + 8 * h, g->iq1[down + (b->qs[h] | (high & 7) << 8)], 8);
    }
    for (int k = 0; k < 16; k++)
        x->scale[k] = (int16_t)(2 * (load_u16(b->scales + 2 * (k / 4)) >> 3 * (k % 4) & 7) + 1);
}
