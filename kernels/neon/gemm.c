// SPDX-License-Identifier: MIT
/* kernels/neon/gemm.c - matrix products on f32 activations with NEON: kernels/f32/gemm.h. */
#include "kernels/neon/f8.h"
#define F32_OPS kern_neon_F32
#include "kernels/f32/gemm.h"

void kern_neon_gemm(struct kern *k) {
    put_gemm(k);
}
