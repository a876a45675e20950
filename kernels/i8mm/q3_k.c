// SPDX-License-Identifier: MIT
/* kernels/i8mm/q3_k.c - Q3_K by FEAT_I8MM: many tokens with packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q3_k.h"
#define FEW kern_dotprod_Q3_K
#include "kernels/i8mm/kquant.h"

const struct kern_ops kern_i8mm_Q3_K = {.gemm = gemm_tiles, .rows = LANES};
