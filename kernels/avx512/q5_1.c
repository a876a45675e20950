// SPDX-License-Identifier: MIT
/* kernels/avx512/q5_1.c - Q5_1 by AVX-512 and VNNI: packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q5_1.h"

const struct kern_ops kern_avx512_Q5_1 = {.gemm = gemm, .rows = LANES};
