// SPDX-License-Identifier: MIT
/* kernels/avx512/q5_k.c - Q5_K by AVX-512 and VNNI: packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q5_k.h"

const struct kern_ops kern_avx512_Q5_K = {.gemm = gemm, .rows = LANES};
