// SPDX-License-Identifier: MIT
/* kernels/neon/q8_0.c - Q8_0 by NEON: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q8_0.h"

const struct kern_ops kern_neon_Q8_0 = {.gemm = gemm, .rows = LANES};
