// SPDX-License-Identifier: MIT
/* kernels/avx512/iq2_xxs.c - IQ2_XXS by AVX-512 with VNNI and VBMI: packed rows, 16 at a time. */
#include "kernels/avx512/grid.h"
#include "kernels/ops.h"
#include "kernels/rows/iq2_xxs.h"

const struct kern_ops kern_avx512_IQ2_XXS = {.gemm = gemm, .rows = LANES, .needs_vbmi = true};
