// SPDX-License-Identifier: MIT
/* kernels/avx512/q3_k.c - Q3_K by AVX-512 and VNNI: packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q3_k.h"

const struct kern_ops kern_avx512_Q3_K = {.gemm = gemm, .rows = LANES};
