// SPDX-License-Identifier: MIT
/* kernels/neon/f32.c - element-wise operators and norms on f32 activations with NEON:
 * kernels/f32/f32.h. */
#include "kernels/neon/f8.h"
#include "kernels/f32/f32.h"

void kern_neon_f32(struct kern *k) {
    put_f32(k);
}
