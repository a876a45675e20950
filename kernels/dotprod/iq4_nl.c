// SPDX-License-Identifier: MIT
/* kernels/dotprod/iq4_nl.c - IQ4_NL by NEON with FEAT_DotProd: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/iq4_nl.h"

const struct kern_ops kern_dotprod_IQ4_NL = {.gemm = gemm, .rows = LANES};
