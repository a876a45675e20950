// SPDX-License-Identifier: MIT
/* kernels/avxvnni/tq2_0.c - TQ2_0 by AVX-VNNI: packed rows, 8 at a time. */
#include "kernels/avxvnni/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/tq2_0.h"

const struct kern_ops kern_avxvnni_TQ2_0 = {.gemm = gemm, .rows = LANES};
