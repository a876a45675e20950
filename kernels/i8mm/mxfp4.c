// SPDX-License-Identifier: MIT
/* kernels/i8mm/mxfp4.c - MXFP4 by FEAT_I8MM: many tokens with packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/mxfp4.h"
#define FEW kern_dotprod_MXFP4
#include "kernels/i8mm/signed.h"

const struct kern_ops kern_i8mm_MXFP4 = {.gemm = gemm_tiles, .rows = LANES};
