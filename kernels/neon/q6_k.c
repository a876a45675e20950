// SPDX-License-Identifier: MIT
/* kernels/neon/q6_k.c - Q6_K by NEON: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q6_k.h"

const struct kern_ops kern_neon_Q6_K = {.gemm = gemm, .rows = LANES};
