// SPDX-License-Identifier: MIT
/* kernels/dotprod/tq1_0.c - TQ1_0 by NEON with FEAT_DotProd: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/tq1_0.h"

const struct kern_ops kern_dotprod_TQ1_0 = {.gemm = gemm, .rows = LANES};
