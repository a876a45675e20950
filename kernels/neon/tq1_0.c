// SPDX-License-Identifier: MIT
/* kernels/neon/tq1_0.c - TQ1_0 by NEON: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/tq1_0.h"

const struct kern_ops kern_neon_TQ1_0 = {.gemm = gemm, .rows = LANES};
