// SPDX-License-Identifier: MIT
/* kernels/rows/iq4_nl.h - packed rows of IQ4_NL. Nibbles as in Q4_0, mapped through the table of
 * levels. */
#include "kernels/codebook.h"
#include "kernels/rows/rows.h"

enum { BLOCK = 18, SIZE = 32, BITS = 8, BIAS = 128, WHOLE = 0 };
struct head {
    fv d;
};

INLINE void head(const uint8_t *w, struct head *h) {
    h->d = l_half(w);
}
INLINE iv indices(const uint8_t *w, int k, int j) {
    (void)k;
    const iv v = l_load(w + (2 + 4 * (j % 4)) * LANES);
    return l_and(j < 4 ? v : l_shr(v, 4), l_i8(15));
}
INLINE iv code(const uint8_t *w, int k, int j) {
    return l_table(kern_iq4_level, indices(w, k, j));
}
#define UCODE(w, k, j) l_table(kern_iq4_level_up, indices(w, k, j))
INLINE fv scaled(const struct head *h, iv s, const struct kern_act *a, int i, fv acc) {
    return l_fma(l_mulf(h->d, l_set(a->d[i])), l_float(s), acc);
}

#include "kernels/rows/signed.h"
