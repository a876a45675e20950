// SPDX-License-Identifier: MIT
/* kernels/avx2/seq.c - stateful operators over tokens on f32 activations with AVX2:
 * kernels/f32/seq.h. */
#include "kernels/avx2/f8.h"
#define F32_OPS kern_avx2_F32
#include "kernels/f32/seq.h"

void kern_avx2_seq(struct kern *k) {
    put_seq(k);
}
