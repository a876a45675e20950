// SPDX-License-Identifier: MIT
/* kernels/avx2/seq.c - AVX2 version of kernels/f32/seq.h: convolution, delta rule and Mamba
 * scans. */
#include "kernels/avx2/f8.h"
#define F32_OPS kern_avx2_F32
#include "kernels/f32/seq.h"

void kern_avx2_seq(struct kern *k) {
    put_seq(k);
}
