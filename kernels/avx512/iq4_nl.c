// SPDX-License-Identifier: MIT
/* kernels/avx512/iq4_nl.c - IQ4_NL by AVX-512 and VNNI: packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/iq4_nl.h"

const struct kern_ops kern_avx512_IQ4_NL = {.gemm = gemm, .rows = LANES};
