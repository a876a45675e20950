// SPDX-License-Identifier: MIT
/* kernels/rows/nvfp4.h - packed rows of NVFP4. Four scale bytes, then nibbles as in the file: of
 * the 16 codes that share a scale, the first eight are the low nibbles. Half of an unsigned E4M3
 * byte with exponent e and mantissa m is (8 + m) * 2^(e - 11); m * 2^-10 for e = 0; and 0 for
 * 0x7f. */
#include "kernels/codebook.h"
#include "kernels/rows/rows.h"

enum { BLOCK = 36, SIZE = 64, BITS = 5, BIAS = 12, WHOLE = 0 };
#define HALVES 1
struct head {
    iv man, exp; /* one byte per scale: its integer, and the biased exponent of its factor */
};

INLINE void head(const uint8_t *w, struct head *h) {
    static const int8_t lead[16] = {0, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8};
    static const int8_t power[16] = {117, 117, 118, 119, 120,  121,  122,  123,
                                     124, 125, 126, 127, -128, -127, -126, -125};
    static const int8_t seven[16] = {[7] = -1}, fifteen[16] = {[15] = -1}; /* nibbles of 0x7f */
    const iv d = l_load(w), low = l_and(d, l_i8(15)), e = l_and(l_shr(d, 3), l_i8(15));
    const iv none = l_and(l_table(fifteen, low), l_table(seven, l_and(l_shr(d, 4), l_i8(15))));
    const iv man = l_or(l_and(d, l_i8(7)), l_table(lead, e));
    h->man = l_sub8(man, l_and(man, none));
    h->exp = l_table(power, e);
}
INLINE iv indices(const uint8_t *w, int k, int j) {
    const iv v = l_load(w + (4 + 4 * (4 * k + j / 4 * 2 + j % 2)) * LANES);
    return l_and(j % 4 < 2 ? v : l_shr(v, 4), l_i8(15));
}
INLINE iv code(const uint8_t *w, int k, int j) {
    return l_table(kern_fp4_level, indices(w, k, j));
}
#define UCODE(w, k, j) l_table(kern_fp4_level_up, indices(w, k, j))
INLINE fv scaled16(const struct head *h, int p, iv s, const struct kern_act *a, int i, fv acc) {
    const iv m = l_and(l_shr(h->man, 8 * p), l_i32(255));
    const iv e = l_and(l_shr(h->exp, 8 * p), l_i32(255));
    const fv d = l_mulf(l_float(m), l_bits(l_shl(e, 23)));
    return l_fma(l_mulf(d, l_set(a->d[i])), l_float(s), acc);
}

#include "kernels/rows/signed.h"
