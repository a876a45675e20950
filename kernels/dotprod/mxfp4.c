// SPDX-License-Identifier: MIT
/* kernels/dotprod/mxfp4.c - MXFP4 by NEON with FEAT_DotProd: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/mxfp4.h"

const struct kern_ops kern_dotprod_MXFP4 = {.gemm = gemm, .rows = LANES};
