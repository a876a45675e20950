// SPDX-License-Identifier: MIT
/* kernels/avx512/q2_k.c - Q2_K by AVX-512 and VNNI: packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q2_k.h"

const struct kern_ops kern_avx512_Q2_K = {.gemm = gemm, .rows = LANES};
