// SPDX-License-Identifier: MIT
/* kernels/neon/q5_k.c - Q5_K by NEON: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q5_k.h"

const struct kern_ops kern_neon_Q5_K = {.gemm = gemm, .rows = LANES};
