// SPDX-License-Identifier: MIT
/* kernels/dotprod/q2_k.c - Q2_K by NEON with FEAT_DotProd: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q2_k.h"

const struct kern_ops kern_dotprod_Q2_K = {.gemm = gemm, .rows = LANES};
