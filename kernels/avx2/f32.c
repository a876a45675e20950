// SPDX-License-Identifier: MIT
/* kernels/avx2/f32.c - AVX2 version of kernels/f32/f32.h: element-wise operators and norms. */
#include "kernels/avx2/f8.h"
#include "kernels/f32/f32.h"

void kern_avx2_f32(struct kern *k) {
    put_f32(k);
}
