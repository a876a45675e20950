// SPDX-License-Identifier: MIT
/* kernels/avxvnni/q4_0.c - Q4_0 by AVX-VNNI: packed rows, 8 at a time. */
#include "kernels/avxvnni/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q4_0.h"

const struct kern_ops kern_avxvnni_Q4_0 = {.gemm = gemm, .rows = LANES};
