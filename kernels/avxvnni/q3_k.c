// SPDX-License-Identifier: MIT
/* kernels/avxvnni/q3_k.c - Q3_K by AVX-VNNI: packed rows, 8 at a time. */
#include "kernels/avxvnni/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q3_k.h"

const struct kern_ops kern_avxvnni_Q3_K = {.gemm = gemm, .rows = LANES};
