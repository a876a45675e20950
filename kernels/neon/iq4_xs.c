// SPDX-License-Identifier: MIT
/* kernels/neon/iq4_xs.c - IQ4_XS by NEON: packed rows, 8 at a time. */
#include "kernels/neon/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/iq4_xs.h"

const struct kern_ops kern_neon_IQ4_XS = {.gemm = gemm, .rows = LANES};
