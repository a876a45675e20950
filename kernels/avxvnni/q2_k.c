// SPDX-License-Identifier: MIT
/* kernels/avxvnni/q2_k.c - Q2_K by AVX-VNNI: packed rows, 8 at a time. */
#include "kernels/avxvnni/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q2_k.h"

const struct kern_ops kern_avxvnni_Q2_K = {.gemm = gemm, .rows = LANES};
