// SPDX-License-Identifier: MIT
/* kernels/avxvnni/tq1_0.c - TQ1_0 by AVX-VNNI: packed rows, 8 at a time. */
#include "kernels/avxvnni/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/tq1_0.h"

const struct kern_ops kern_avxvnni_TQ1_0 = {.gemm = gemm, .rows = LANES};
