// SPDX-License-Identifier: MIT
/* kernels/i8mm/steps.h - codes and factors of 8 rows, arranged for the products of tiles.h.
 * Static inline functions, included after neon/lanes.h. */
#ifndef HONE_KERNELS_I8MM_STEPS_H
#define HONE_KERNELS_I8MM_STEPS_H

/* Interleaves words x and y of eight rows: to[i] gets x and y of row 2i, then of row 2i + 1. */
INLINE void side_by_side(iv x, iv y, int8x16_t *to) {
    to[0] = s8(vzip1q_s32(x.a, y.a));
    to[1] = s8(vzip2q_s32(x.a, y.a));
    to[2] = s8(vzip1q_s32(x.b, y.b));
    to[3] = s8(vzip2q_s32(x.b, y.b));
}
/* Repeats each row's factor to match the 2 x 2 sums. */
INLINE void twice(iv v, int32x4_t *to) {
    to[0] = vzip1q_s32(v.a, v.a);
    to[1] = vzip2q_s32(v.a, v.a);
    to[2] = vzip1q_s32(v.b, v.b);
    to[3] = vzip2q_s32(v.b, v.b);
}

#endif
