// SPDX-License-Identifier: MIT
/* kernels/rows/q5_1.h - packed rows of Q5_1. Like Q5_0, with a minimum as in Q4_1. */
#include "kernels/rows/rows.h"

enum { BLOCK = 24, SIZE = 32, BITS = 5, BIAS = 0, WHOLE = 0 };
struct head {
    fv d, m;
};

INLINE void head(const uint8_t *w, struct head *h) {
    h->d = l_half(w);
    h->m = l_half(w + 2 * LANES);
}
INLINE iv code(const uint8_t *w, int k, int j) {
    (void)k;
    const iv v = l_load(w + (8 + 4 * (j % 4)) * LANES);
    const iv q = l_and(j < 4 ? v : l_shr(v, 4), l_i8(15));
    return l_or(q, fifth_bits(l_load(w + 4 * LANES), j));
}
INLINE fv scaled(const struct head *h, iv s, const struct kern_act *a, int i, fv acc) {
    acc = l_fma(h->m, l_set(a->d[i] * (float)a->s32[i]), acc);
    return l_fma(l_mulf(h->d, l_set(a->d[i])), l_float(s), acc);
}

#include "kernels/rows/signed.h"
