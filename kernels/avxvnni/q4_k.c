// SPDX-License-Identifier: MIT
/* kernels/avxvnni/q4_k.c - Q4_K by AVX-VNNI: packed rows, 8 at a time. */
#include "kernels/avxvnni/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q4_k.h"

const struct kern_ops kern_avxvnni_Q4_K = {.gemm = gemm, .rows = LANES};
