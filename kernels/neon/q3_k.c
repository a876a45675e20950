// SPDX-License-Identifier: MIT
/* kernels/neon/q3_k.c - Q3_K by NEON: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q3_k.h"

const struct kern_ops kern_neon_Q3_K = {.gemm = gemm, .rows = LANES};
