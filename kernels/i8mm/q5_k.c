// SPDX-License-Identifier: MIT
/* kernels/i8mm/q5_k.c - Q5_K by FEAT_I8MM: many tokens with packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q5_k.h"
#define FEW kern_dotprod_Q5_K
#include "kernels/i8mm/kquant.h"

const struct kern_ops kern_i8mm_Q5_K = {.gemm = gemm_tiles, .rows = LANES};
