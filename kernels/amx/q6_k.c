// SPDX-License-Identifier: MIT
/* kernels/amx/q6_k.c - Q6_K by AMX int8: many tokens with packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q6_k.h"
#define FEW kern_avx512_Q6_K
#include "kernels/amx/kquant.h"

const struct kern_ops kern_amx_Q6_K = {.gemm = gemm_tiles, .rows = LANES};
