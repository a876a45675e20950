// SPDX-License-Identifier: MIT
/* kernels/amx/q5_0.c - Q5_0 by AMX int8: many tokens with packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q5_0.h"
#define FEW kern_avx512_Q5_0
#include "kernels/amx/plain.h"

const struct kern_ops kern_amx_Q5_0 = {.gemm = gemm_tiles, .rows = LANES};
