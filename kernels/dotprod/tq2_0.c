// SPDX-License-Identifier: MIT
/* kernels/dotprod/tq2_0.c - TQ2_0 by NEON with FEAT_DotProd: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/tq2_0.h"

const struct kern_ops kern_dotprod_TQ2_0 = {.gemm = gemm, .rows = LANES};
