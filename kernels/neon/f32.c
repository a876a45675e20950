// SPDX-License-Identifier: MIT
/* kernels/neon/f32.c - NEON version of kernels/f32/f32.h: element-wise operators and norms. */
#include "kernels/neon/f8.h"
#include "kernels/f32/f32.h"

void kern_neon_f32(struct kern *k) {
    put_f32(k);
}
