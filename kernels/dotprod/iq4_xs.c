// SPDX-License-Identifier: MIT
/* kernels/dotprod/iq4_xs.c - IQ4_XS by NEON with FEAT_DotProd: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/iq4_xs.h"

const struct kern_ops kern_dotprod_IQ4_XS = {.gemm = gemm, .rows = LANES};
