// SPDX-License-Identifier: MIT
/* kernels/amx/iq4_nl.c - IQ4_NL by AMX int8: many tokens with packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/iq4_nl.h"
#define FEW kern_avx512_IQ4_NL
#include "kernels/amx/plain.h"

const struct kern_ops kern_amx_IQ4_NL = {.gemm = gemm_tiles, .rows = LANES};
