// SPDX-License-Identifier: MIT
/* kernels/dotprod/q5_0.c - Q5_0 by NEON with FEAT_DotProd: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q5_0.h"

const struct kern_ops kern_dotprod_Q5_0 = {.gemm = gemm, .rows = LANES};
