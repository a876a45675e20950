// SPDX-License-Identifier: MIT
/* kernels/neon/gemm.c - NEON version of kernels/f32/gemm.h: f32 matrix products. */
#include "kernels/neon/f8.h"
#define F32_OPS kern_neon_F32
#include "kernels/f32/gemm.h"

void kern_neon_gemm(struct kern *k) {
    put_gemm(k);
}
