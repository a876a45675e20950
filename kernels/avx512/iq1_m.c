// SPDX-License-Identifier: MIT
/* kernels/avx512/iq1_m.c - IQ1_M by AVX-512 with VNNI: packed rows, 16 at a time. */
#include "kernels/avx512/loads.h"
#include "kernels/ops.h"
#include "kernels/rows/iq1_m.h"

const struct kern_ops kern_avx512_IQ1_M = {.gemm = gemm, .rows = LANES};
