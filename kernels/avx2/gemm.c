// SPDX-License-Identifier: MIT
/* kernels/avx2/gemm.c - matrix products on f32 activations with AVX2: kernels/f32/gemm.h. */
#include "kernels/avx2/f8.h"
#define F32_OPS kern_avx2_F32
#include "kernels/f32/gemm.h"

void kern_avx2_gemm(struct kern *k) {
    put_gemm(k);
}
