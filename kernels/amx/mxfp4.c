// SPDX-License-Identifier: MIT
/* kernels/amx/mxfp4.c - MXFP4 by AMX int8: many tokens with packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/mxfp4.h"
#define FEW kern_avx512_MXFP4
#include "kernels/amx/plain.h"

const struct kern_ops kern_amx_MXFP4 = {.gemm = gemm_tiles, .rows = LANES};
