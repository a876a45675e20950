// SPDX-License-Identifier: MIT
/* kernels/neon/q5_1.c - Q5_1 by NEON: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q5_1.h"

const struct kern_ops kern_neon_Q5_1 = {.gemm = gemm, .rows = LANES};
