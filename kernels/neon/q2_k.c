// SPDX-License-Identifier: MIT
/* kernels/neon/q2_k.c - Q2_K by NEON: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q2_k.h"

const struct kern_ops kern_neon_Q2_K = {.gemm = gemm, .rows = LANES};
