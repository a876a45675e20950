// SPDX-License-Identifier: MIT
/* kernels/dotprod/q5_k.c - Q5_K by NEON with FEAT_DotProd: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q5_k.h"

const struct kern_ops kern_dotprod_Q5_K = {.gemm = gemm, .rows = LANES};
