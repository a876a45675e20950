// SPDX-License-Identifier: MIT
/* kernels/neon/q4_k.c - Q4_K by NEON: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q4_k.h"

const struct kern_ops kern_neon_Q4_K = {.gemm = gemm, .rows = LANES};
