// SPDX-License-Identifier: MIT
/* kernels/i8mm/q8_0.c - Q8_0 by FEAT_I8MM: many tokens with packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q8_0.h"
#define FEW kern_dotprod_Q8_0
#include "kernels/i8mm/signed.h"

const struct kern_ops kern_i8mm_Q8_0 = {.gemm = gemm_tiles, .rows = LANES};
