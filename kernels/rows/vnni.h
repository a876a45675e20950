// SPDX-License-Identifier: MIT
/* kernels/rows/vnni.h - products of codes with VNNI-style instructions, which multiply four
 * unsigned by four signed bytes and add the products to a 32-bit sum. The names are those of
 * avx2/lanes.h, which sums in 16 bits. Included at the end of an ISA's lanes.h, which must define
 * l_dot(s, w, x), that instruction; l_signed(v, i), byte i of a lane widened to 32 bits; and
 * running(s), which keeps s in a register. */
#ifndef HONE_KERNELS_ROWS_VNNI_H
#define HONE_KERNELS_ROWS_VNNI_H

enum { SHORT_SUMS = 0 };

INLINE int u_depth(int bits) { /* sums have 32 bits: a sub-block always fits */
    (void)bits;
    return 8;
}
INLINE iv u_first(iv w, iv x) {
    return running(l_dot(l_i32(0), w, x));
}
INLINE iv u_next(iv s, iv w, iv x) {
    return running(l_dot(s, w, x));
}
INLINE iv u_scale(iv v, int i, bool is_signed) {
    return is_signed ? l_signed(v, i) : l_bytes(v, 0x80808000 | (unsigned)i);
}
INLINE iv u_end(iv sum, iv s, iv scale) {
    return running(l_add(sum, l_mul(s, scale)));
}

INLINE iv s_scale(iv v) {
    return v;
}
/* Signed codes arrive biased (UCODE of rows/signed.h); `moved` corrects the sum for that. */
#define UNSIGNED_CODES 1
INLINE iv s_first(int moved) {
    return l_i32(-moved);
}
INLINE iv s_next(iv s, iv w, iv x, iv ax, iv scale, bool whole) {
    (void)ax;
    (void)scale;
    (void)whole;
    return running(l_dot(s, w, x));
}
INLINE iv s_end(iv sum, iv s, iv scale) {
    return l_add(sum, l_mul(s, scale));
}

#endif
