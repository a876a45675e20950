// SPDX-License-Identifier: MIT
/* kernels/rows/mxfp4.h - packed rows of MXFP4. Nibbles as in Q4_0, mapped through the table of
 * levels. Scales 2^(e-128) below 2^-126 (e of 0 and 1) count as 0: blocks of zeros have such
 * scales, and each subnormal number costs some processors a hundred cycles. */
#include "kernels/codebook.h"
#include "kernels/rows/rows.h"

enum { BLOCK = 17, SIZE = 32, BITS = 5, BIAS = 12, WHOLE = 0 };
struct head {
    fv d;
};

INLINE void head(const uint8_t *w, struct head *h) {
    const iv e = l_u8(w), one = l_shr(l_add(e, l_i32(255)), 8); /* 1, or 0 if e is 0 */
    h->d = l_bits(l_shl(l_sub(e, one), 23));
}
INLINE iv indices(const uint8_t *w, int k, int j) {
    (void)k;
    const iv v = l_load(w + (1 + 4 * (j % 4)) * LANES);
    return l_and(j < 4 ? v : l_shr(v, 4), l_i8(15));
}
INLINE iv code(const uint8_t *w, int k, int j) {
    return l_table(kern_fp4_level, indices(w, k, j));
}
#define UCODE(w, k, j) l_table(kern_fp4_level_up, indices(w, k, j))
INLINE fv scaled(const struct head *h, iv s, const struct kern_act *a, int i, fv acc) {
    return l_fma(l_mulf(h->d, l_set(a->d[i])), l_float(s), acc);
}

#include "kernels/rows/signed.h"
