// SPDX-License-Identifier: MIT
/* kernels/avxvnni/q5_k.c - Q5_K by AVX-VNNI: packed rows, 8 at a time. */
#include "kernels/avxvnni/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q5_k.h"

const struct kern_ops kern_avxvnni_Q5_K = {.gemm = gemm, .rows = LANES};
