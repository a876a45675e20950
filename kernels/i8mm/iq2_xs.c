// SPDX-License-Identifier: MIT
/* kernels/i8mm/iq2_xs.c - IQ2_XS by FEAT_I8MM: many tokens with packed rows, 8 at a time. */
#include "kernels/neon/grid.h"
#include "kernels/ops.h"
#include "kernels/rows/iq2_xs.h"
#define FEW kern_dotprod_IQ2_XS
#include "kernels/i8mm/kquant.h"

const struct kern_ops kern_i8mm_IQ2_XS = {.gemm = gemm_tiles, .rows = LANES};
