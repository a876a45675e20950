// SPDX-License-Identifier: MIT
/* kernels/avx2/tq1_0.c - TQ1_0 by AVX2: packed rows, 8 at a time. */
#include "kernels/avx2/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/tq1_0.h"

const struct kern_ops kern_avx2_TQ1_0 = {.gemm = gemm, .rows = LANES};
