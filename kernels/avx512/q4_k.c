// SPDX-License-Identifier: MIT
/* kernels/avx512/q4_k.c - Q4_K by AVX-512 and VNNI: packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q4_k.h"

const struct kern_ops kern_avx512_Q4_K = {.gemm = gemm, .rows = LANES};
