// SPDX-License-Identifier: MIT
/* kernels/neon/grid.h - NEON primitives for rows/grid.h and rows/loads.h. Products take signed
 * codes, so IQ1 to IQ3 need no offset. Static inline functions only. */
#ifndef HONE_KERNELS_NEON_GRID_H
#define HONE_KERNELS_NEON_GRID_H

#include "base/bytes.h"
#include "kernels/neon/lanes.h"

#define SIGNED_CODES 1

INLINE iv l_xor(iv x, iv y) {
    return (iv){veorq_s32(x.a, y.a), veorq_s32(x.b, y.b)};
}
INLINE iv l_add8(iv x, iv y) {
    return iv_u8(vaddq_u8(u8(x.a), u8(y.a)), vaddq_u8(u8(x.b), u8(y.b)));
}
INLINE void l_store(void *p, iv v) {
    uint8_t *q = p;
    vst1q_u8(q, u8(v.a));
    vst1q_u8(q + 16, u8(v.b));
}
INLINE iv l_low(iv x, iv y) {
    return iv_u8(vzip1q_u8(u8(x.a), u8(y.a)), vzip1q_u8(u8(x.b), u8(y.b)));
}
INLINE iv l_high(iv x, iv y) {
    return iv_u8(vzip2q_u8(u8(x.a), u8(y.a)), vzip2q_u8(u8(x.b), u8(y.b)));
}
INLINE iv l_bit(iv v, iv bits) {
    return iv_u8(vtstq_u8(u8(v.a), u8(bits.a)), vtstq_u8(u8(v.b), u8(bits.b)));
}
/* Loads eight bytes for each of two rows. */
INLINE int32x4_t two_rows(const uint8_t *t, unsigned i, unsigned j) {
    return vreinterpretq_s32_u8(
        vcombine_u8(vld1_u8(t + 8 * (size_t)i), vld1_u8(t + 8 * (size_t)j)));
}
INLINE void l_eight(const uint8_t *t, const unsigned *i, iv *q) {
    const int32x4_t x = two_rows(t, i[0], i[1]), y = two_rows(t, i[2], i[3]),
                    z = two_rows(t, i[4], i[5]), w = two_rows(t, i[6], i[7]);
    q[0] = (iv){vuzp1q_s32(x, y), vuzp1q_s32(z, w)};
    q[1] = (iv){vuzp2q_s32(x, y), vuzp2q_s32(z, w)};
}
/* Loads four bytes for each of four rows. */
INLINE int32x4_t four_rows(const uint8_t *t, const unsigned *i) {
    int32x4_t v = vdupq_n_s32(0);
    v = vsetq_lane_s32(load_i32(t + 4 * (size_t)i[0]), v, 0);
    v = vsetq_lane_s32(load_i32(t + 4 * (size_t)i[1]), v, 1);
    v = vsetq_lane_s32(load_i32(t + 4 * (size_t)i[2]), v, 2);
    return vsetq_lane_s32(load_i32(t + 4 * (size_t)i[3]), v, 3);
}
INLINE iv l_four(const uint8_t *t, const unsigned *i) {
    return (iv){four_rows(t, i), four_rows(t, i + 4)};
}

#endif
