// SPDX-License-Identifier: MIT
/* kernels/avxvnni/mxfp4.c - MXFP4 by AVX-VNNI: packed rows, 8 at a time. */
#include "kernels/avxvnni/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/mxfp4.h"

const struct kern_ops kern_avxvnni_MXFP4 = {.gemm = gemm, .rows = LANES};
