// SPDX-License-Identifier: MIT
/* kernels/i8mm/iq3_xxs.c - IQ3_XXS by FEAT_I8MM: many tokens with packed rows, 8 at a time. */
#include "kernels/neon/grid.h"
#include "kernels/ops.h"
#include "kernels/rows/iq3_xxs.h"
#define FEW kern_dotprod_IQ3_XXS
#include "kernels/i8mm/kquant.h"

const struct kern_ops kern_i8mm_IQ3_XXS = {.gemm = gemm_tiles, .rows = LANES};
