// SPDX-License-Identifier: MIT
/* kernels/neon/seq.c - operators that walk over tokens with a state on f32 activations by NEON: see
 * kernels/f32/seq.h. */
#include "kernels/neon/f8.h"
#define F32_OPS kern_neon_F32
#include "kernels/f32/seq.h"

void kern_neon_seq(struct kern *k) {
    put_seq(k);
}
