// SPDX-License-Identifier: MIT
/* kernels/neon/f32.c - elementwise operators and norms on f32 activations by NEON: see
 * kernels/f32/f32.h. */
#include "kernels/neon/f8.h"
#include "kernels/f32/f32.h"

void kern_neon_f32(struct kern *k) {
    put_f32(k);
}
