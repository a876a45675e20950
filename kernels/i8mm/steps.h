// SPDX-License-Identifier: MIT
/* kernels/i8mm/steps.h - codes and factors of 8 rows as the products of tiles.h want them. Included
 * behind neon/lanes.h. Static inline functions only. */
#ifndef HONE_KERNELS_I8MM_STEPS_H
#define HONE_KERNELS_I8MM_STEPS_H

/* Puts words j and j + 1 of pairs of rows side by side: of rows 0 and 1, 2 and 3, 4 and 5, 6 and
 * 7. */
INLINE void side_by_side(iv x, iv y, int8x16_t *to) {
    to[0] = s8(vzip1q_s32(x.a, y.a));
    to[1] = s8(vzip2q_s32(x.a, y.a));
    to[2] = s8(vzip1q_s32(x.b, y.b));
    to[3] = s8(vzip2q_s32(x.b, y.b));
}
/* Repeats a factor of each row as the 2 x 2 sums want it. */
INLINE void twice(iv v, int32x4_t *to) {
    to[0] = vzip1q_s32(v.a, v.a);
    to[1] = vzip2q_s32(v.a, v.a);
    to[2] = vzip1q_s32(v.b, v.b);
    to[3] = vzip2q_s32(v.b, v.b);
}

#endif
