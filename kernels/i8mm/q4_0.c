// SPDX-License-Identifier: MIT
/* kernels/i8mm/q4_0.c - Q4_0 by FEAT_I8MM: many tokens with packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q4_0.h"
#define FEW kern_dotprod_Q4_0
#include "kernels/i8mm/signed.h"

const struct kern_ops kern_i8mm_Q4_0 = {.gemm = gemm_tiles, .rows = LANES};
