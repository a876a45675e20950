// SPDX-License-Identifier: MIT
/* kernels/dotprod/q6_k.c - Q6_K by NEON with FEAT_DotProd: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q6_k.h"

const struct kern_ops kern_dotprod_Q6_K = {.gemm = gemm, .rows = LANES};
