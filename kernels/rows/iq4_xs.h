// SPDX-License-Identifier: MIT
/* kernels/rows/iq4_xs.h - packed rows of IQ4_XS. Nibbles as in Q4_0, mapped through the table of
 * levels. */
#include "kernels/codebook.h"
#include "kernels/rows/rows.h"

enum { BLOCK = 136, SIZE = 256, BITS = 8, BIAS = 128, WHOLE = 0 };
struct head {
    fv d;
    iv low, high; /* nibbles of the eight scales, and their two high bits */
};

INLINE void head(const uint8_t *w, struct head *h) {
    h->d = l_half(w);
    h->high = l_u16(w + 2 * LANES);
    h->low = l_load(w + 4 * LANES);
}
INLINE iv indices(const uint8_t *w, int k, int j) {
    const iv v = l_load(w + (8 + 4 * (4 * k + j % 4)) * LANES);
    return l_and(j < 4 ? v : l_shr(v, 4), l_i8(15));
}
INLINE iv code(const uint8_t *w, int k, int j) {
    return l_table(kern_iq4_level, indices(w, k, j));
}
#define UCODE(w, k, j) l_table(kern_iq4_level_up, indices(w, k, j))
INLINE iv factor(const struct head *h, int k) {
    const iv low = l_and(l_shr(h->low, 4 * k), l_i32(15));
    const iv high =
        l_and(k < 2 ? l_shl(h->high, 4 - 2 * k) : l_shr(h->high, 2 * k - 4), l_i32(0x30));
    return l_sub(l_or(low, high), l_i32(32));
}
#define FACTOR(h, k) factor(h, k)
INLINE fv scaled(const struct head *h, iv s, const struct kern_act *a, int i, fv acc) {
    return l_fma(l_mulf(h->d, l_set(a->d[i])), l_float(s), acc);
}

#include "kernels/rows/signed.h"
