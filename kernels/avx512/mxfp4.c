// SPDX-License-Identifier: MIT
/* kernels/avx512/mxfp4.c - MXFP4 by AVX-512 and VNNI: packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/mxfp4.h"

const struct kern_ops kern_avx512_MXFP4 = {.gemm = gemm, .rows = LANES};
