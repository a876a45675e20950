// SPDX-License-Identifier: MIT
/* kernels/i8mm/iq4_nl.c - IQ4_NL by FEAT_I8MM: many tokens with packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/iq4_nl.h"
#define FEW kern_dotprod_IQ4_NL
#include "kernels/i8mm/signed.h"

const struct kern_ops kern_i8mm_IQ4_NL = {.gemm = gemm_tiles, .rows = LANES};
