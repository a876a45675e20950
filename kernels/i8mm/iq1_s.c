// SPDX-License-Identifier: MIT
/* kernels/i8mm/iq1_s.c - IQ1_S by FEAT_I8MM: many tokens with packed rows, 8 at a time. */
#include "kernels/neon/grid.h"
#include "kernels/ops.h"
#include "kernels/rows/iq1_s.h"
#define FEW kern_dotprod_IQ1_S
#include "kernels/i8mm/kquant.h"

const struct kern_ops kern_i8mm_IQ1_S = {.gemm = gemm_tiles, .rows = LANES};
