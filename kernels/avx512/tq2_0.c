// SPDX-License-Identifier: MIT
/* kernels/avx512/tq2_0.c - TQ2_0 by AVX-512 and VNNI: packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/tq2_0.h"

const struct kern_ops kern_avx512_TQ2_0 = {.gemm = gemm, .rows = LANES};
