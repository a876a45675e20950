// SPDX-License-Identifier: MIT
/* kernels/dotprod/q3_k.c - Q3_K by NEON with FEAT_DotProd: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q3_k.h"

const struct kern_ops kern_dotprod_Q3_K = {.gemm = gemm, .rows = LANES};
