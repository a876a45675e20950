// SPDX-License-Identifier: MIT
/* kernels/dotprod/q4_k.c - Q4_K by NEON with FEAT_DotProd: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q4_k.h"

const struct kern_ops kern_dotprod_Q4_K = {.gemm = gemm, .rows = LANES};
