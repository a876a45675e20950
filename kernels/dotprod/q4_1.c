// SPDX-License-Identifier: MIT
/* kernels/dotprod/q4_1.c - Q4_1 by NEON with FEAT_DotProd: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q4_1.h"

const struct kern_ops kern_dotprod_Q4_1 = {.gemm = gemm, .rows = LANES};
