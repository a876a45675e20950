// SPDX-License-Identifier: MIT
/* kernels/rows/mxfp4.h - MXFP4, packed. Nibbles as Q4_0, through the table of levels; 2^(e-128) is
 * put together as bits, 0 and 1 from the subnormals that they give. */
#include "kernels/codebook.h"
#include "kernels/rows/rows.h"

enum { BLOCK = 17, SIZE = 32, BITS = 5, BIAS = 12, WHOLE = 0 };
struct head {
    fv d;
};

INLINE void head(const uint8_t *w, struct head *h) {
    float d[LANES];
    for (int i = 0; i < LANES; i++) d[i] = kern_e8m0_half(w[i]);
    h->d = l_loadf(d);
}
INLINE iv code(const uint8_t *w, int k, int j) {
    (void)k;
    const iv v = l_load(w + (1 + 4 * (j % 4)) * LANES);
    const iv q = l_and(j < 4 ? v : l_shr(v, 4), l_i8(15));
    return l_table(kern_fp4_level, q);
}
INLINE fv scaled(const struct head *h, iv s, const struct kern_act *a, int i, fv acc) {
    return l_fma(l_mulf(h->d, l_set(a->d[i])), l_float(s), acc);
}

#include "kernels/rows/signed.h"
