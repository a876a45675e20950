// SPDX-License-Identifier: MIT
/* kernels/i8mm/q2_k.c - Q2_K by FEAT_I8MM: many tokens with packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q2_k.h"
#define FEW kern_dotprod_Q2_K
#include "kernels/i8mm/kquant.h"

const struct kern_ops kern_i8mm_Q2_K = {.gemm = gemm_tiles, .rows = LANES};
