// SPDX-License-Identifier: MIT
/* kernels/avxvnni/q5_0.c - Q5_0 by AVX-VNNI: packed rows, 8 at a time. */
#include "kernels/avxvnni/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q5_0.h"

const struct kern_ops kern_avxvnni_Q5_0 = {.gemm = gemm, .rows = LANES};
