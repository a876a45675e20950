// SPDX-License-Identifier: MIT
/* kernels/avx512/q8_0.c - Q8_0 by AVX-512 and VNNI: packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q8_0.h"

const struct kern_ops kern_avx512_Q8_0 = {.gemm = gemm, .rows = LANES};
