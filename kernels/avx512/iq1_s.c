// SPDX-License-Identifier: MIT
/* kernels/avx512/iq1_s.c - IQ1_S by AVX-512 with VNNI: packed rows, 16 at a time. */
#include "kernels/avx512/loads.h"
#include "kernels/ops.h"
#include "kernels/rows/iq1_s.h"

const struct kern_ops kern_avx512_IQ1_S = {.gemm = gemm, .rows = LANES};
