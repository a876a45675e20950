// SPDX-License-Identifier: MIT
/* kernels/avx512/iq2_s.c - IQ2_S by AVX-512 with VNNI and VBMI: packed rows, 16 at a time. */
#include "kernels/avx512/grid.h"
#include "kernels/ops.h"
#include "kernels/rows/iq2_s.h"

const struct kern_ops kern_avx512_IQ2_S = {.gemm = gemm, .rows = LANES, .needs_vbmi = true};
