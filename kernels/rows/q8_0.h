// SPDX-License-Identifier: MIT
/* kernels/rows/q8_0.h - packed rows of Q8_0. Codes are stored unchanged. */
#include "kernels/rows/rows.h"

enum { BLOCK = 34, SIZE = 32, BITS = 8, BIAS = 128, WHOLE = 1 };
struct head {
    fv d;
};

INLINE void head(const uint8_t *w, struct head *h) {
    h->d = l_half(w);
}
INLINE iv code(const uint8_t *w, int k, int j) {
    (void)k;
    return l_load(w + (2 + 4 * j) * LANES);
}
INLINE fv scaled(const struct head *h, iv s, const struct kern_act *a, int i, fv acc) {
    return l_fma(l_mulf(h->d, l_set(a->d[i])), l_float(s), acc);
}

#include "kernels/rows/signed.h"
