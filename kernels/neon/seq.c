// SPDX-License-Identifier: MIT
/* kernels/neon/seq.c - NEON version of kernels/f32/seq.h: convolution, delta rule and Mamba
 * scans. */
#include "kernels/neon/f8.h"
#define F32_OPS kern_neon_F32
#include "kernels/f32/seq.h"

void kern_neon_seq(struct kern *k) {
    put_seq(k);
}
