// SPDX-License-Identifier: MIT
/* kernels/i8mm/iq4_xs.c - IQ4_XS by FEAT_I8MM: many tokens with packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/iq4_xs.h"
#define FEW kern_dotprod_IQ4_XS
#include "kernels/i8mm/signed.h"

const struct kern_ops kern_i8mm_IQ4_XS = {.gemm = gemm_tiles, .rows = LANES};
