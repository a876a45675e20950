// SPDX-License-Identifier: MIT
/* kernels/amx/q4_1.c - Q4_1 by AMX int8: many tokens with packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q4_1.h"
#define FEW kern_avx512_Q4_1
#include "kernels/amx/plain.h"

const struct kern_ops kern_amx_Q4_1 = {.gemm = gemm_tiles, .rows = LANES};
