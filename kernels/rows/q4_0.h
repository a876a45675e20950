// SPDX-License-Identifier: MIT
/* kernels/rows/q4_0.h - packed rows of Q4_0. Low nibbles are weights 0..15 of a block, high nibbles
 * weights 16..31. */
#include "kernels/rows/rows.h"

enum { BLOCK = 18, SIZE = 32, BITS = 4, BIAS = 8, WHOLE = 0 };
struct head {
    fv d;
};

INLINE void head(const uint8_t *w, struct head *h) {
    h->d = l_half(w);
}
INLINE iv code(const uint8_t *w, int k, int j) {
    (void)k;
    const iv v = l_load(w + (2 + 4 * (j % 4)) * LANES);
    const iv q = l_and(j < 4 ? v : l_shr(v, 4), l_i8(15));
    return l_sub8(q, l_i8(8));
}
INLINE fv scaled(const struct head *h, iv s, const struct kern_act *a, int i, fv acc) {
    return l_fma(l_mulf(h->d, l_set(a->d[i])), l_float(s), acc);
}

#ifdef __ARM_FEATURE_DOTPROD /* saves a subtraction per code; faster for one token */
#define SUBTRACTED 1
#endif
#include "kernels/rows/signed.h"
