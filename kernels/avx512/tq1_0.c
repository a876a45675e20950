// SPDX-License-Identifier: MIT
/* kernels/avx512/tq1_0.c - TQ1_0 by AVX-512 and VNNI: packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/tq1_0.h"

const struct kern_ops kern_avx512_TQ1_0 = {.gemm = gemm, .rows = LANES};
