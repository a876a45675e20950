// SPDX-License-Identifier: MIT
/* kernels/i8mm/q6_k.c - Q6_K by FEAT_I8MM: many tokens with packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q6_k.h"
#define FEW kern_dotprod_Q6_K
#include "kernels/i8mm/kquant.h"

const struct kern_ops kern_i8mm_Q6_K = {.gemm = gemm_tiles, .rows = LANES};
