// SPDX-License-Identifier: MIT
/* kernels/avx2/seq.c - operators that walk over tokens with a state on f32 activations by AVX2: see
 * kernels/f32/seq.h. */
#include "kernels/avx2/f8.h"
#define F32_OPS kern_avx2_F32
#include "kernels/f32/seq.h"

void kern_avx2_seq(struct kern *k) {
    put_seq(k);
}
