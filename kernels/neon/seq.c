// SPDX-License-Identifier: MIT
/* kernels/neon/seq.c - stateful operators over tokens on f32 activations with NEON:
 * kernels/f32/seq.h. */
#include "kernels/neon/f8.h"
#define F32_OPS kern_neon_F32
#include "kernels/f32/seq.h"

void kern_neon_seq(struct kern *k) {
    put_seq(k);
}
