// SPDX-License-Identifier: MIT
/* kernels/amx/q2_k.c - Q2_K by AMX int8: many tokens with packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q2_k.h"
#define FEW kern_avx512_Q2_K
#include "kernels/amx/kquant.h"

const struct kern_ops kern_amx_Q2_K = {.gemm = gemm_tiles, .rows = LANES};
