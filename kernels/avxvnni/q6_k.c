// SPDX-License-Identifier: MIT
/* kernels/avxvnni/q6_k.c - Q6_K by AVX-VNNI: packed rows, 8 at a time. */
#include "kernels/avxvnni/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/q6_k.h"

const struct kern_ops kern_avxvnni_Q6_K = {.gemm = gemm, .rows = LANES};
