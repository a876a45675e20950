// SPDX-License-Identifier: MIT
/* kernels/i8mm/tq1_0.c - TQ1_0 by FEAT_I8MM: many tokens with packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/tq1_0.h"
#define FEW kern_dotprod_TQ1_0
#include "kernels/i8mm/kquant.h"

const struct kern_ops kern_i8mm_TQ1_0 = {.gemm = gemm_tiles, .rows = LANES};
