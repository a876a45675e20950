// SPDX-License-Identifier: MIT
/* kernels/neon/iq3_s.h - IQ3_S with NEON: unpacked rows (iq.h) and packed ones. Layout:
 * kernels/ref/iq3_s.c. Included once, by kernels/packed.c. */
#include "kernels/neon/grid.h"
#include "kernels/neon/iq.h"
#include "kernels/ops.h"
#include "kernels/rows/iq3_s.h"

static void take_apart(const void *w, const struct kern_grid *g, struct iq_apart *x) {
    const struct blk_IQ3_S *b = w;
    const uint8_t *p = b->qs;
    x->d = half(load_u16(&b->d));
    for (int k = 0; k < 16; k++, p += 4) {
        const unsigned h = (unsigned)b->qh[k / 2] << (k % 2 ? 4 : 8);
        iq_put(x, 16 * k,
               iq_four(g->iq3_s, p[0] | (h & 256), p[1] | (h >> 1 & 256), p[2] | (h >> 2 & 256),
                       p[3] | (h >> 3 & 256)),
               b->signs[2 * k], b->signs[2 * k + 1]);
    }
    for (int k = 0; k < 8; k++) iq_scale_32(x, k, (unsigned)b->scales[k / 2] >> 4 * (k % 2) & 15);
}
