// SPDX-License-Identifier: MIT
/* kernels/avx2/gemm.c - AVX2 version of kernels/f32/gemm.h: f32 matrix products. */
#include "kernels/avx2/f8.h"
#define F32_OPS kern_avx2_F32
#include "kernels/f32/gemm.h"

void kern_avx2_gemm(struct kern *k) {
    put_gemm(k);
}
