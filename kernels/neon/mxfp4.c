// SPDX-License-Identifier: MIT
/* kernels/neon/mxfp4.c - MXFP4 by NEON: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/mxfp4.h"

const struct kern_ops kern_neon_MXFP4 = {.gemm = gemm, .rows = LANES};
