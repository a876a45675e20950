// SPDX-License-Identifier: MIT
/* kernels/rows/iq3_xxs.h - IQ3_XXS, packed. All indices, then signs and scales. */
#include "kernels/rows/grid.h"

enum { BLOCK = 98, SUB = 32 };

#define PLUS 68, 76, 84, 92, 100, 108, 116, 126
#define MINUS 60, 52, 44, 36, 28, 20, 12, 2
static const uint8_t iq3_code[2][64] = {{BIT_0(PLUS, MINUS)}, {BIT_1(PLUS, MINUS)}};

INLINE void head(const uint8_t *w, struct rows_head *h) {
    h->d = h->dmin = l_mulf(l_half(w), l_set(0.25f));
    top_scales(w + 66 * LANES, 1, h);
}
INLINE void mixed_codes(const uint8_t *w, int k, iv *q) {
    const struct kern_grid *g = kern_grid_get();
    const iv signs = packed_signs(l_load(w + (66 + 4 * k) * LANES));
    UNROLL for (int half = 0; half < 2; half++) {
        const iv i = mixed_index(w + (2 + 4 * (2 * k + half)) * LANES);
        codes_iq3(iq3_code, l_look(g->iq3_xxs_no[0], i), l_look(g->iq3_xxs_no[1], i), signs, half,
                  q + 4 * half);
    }
}

#include "kernels/rows/kquant.h"
