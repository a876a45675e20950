// SPDX-License-Identifier: MIT
/* kernels/avx2/f32.c - element-wise operators and norms on f32 activations with AVX2:
 * kernels/f32/f32.h. */
#include "kernels/avx2/f8.h"
#include "kernels/f32/f32.h"

void kern_avx2_f32(struct kern *k) {
    put_f32(k);
}
