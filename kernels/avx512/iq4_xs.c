// SPDX-License-Identifier: MIT
/* kernels/avx512/iq4_xs.c - IQ4_XS by AVX-512 and VNNI: packed rows, 16 at a time. */
#include "kernels/avx512/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/iq4_xs.h"

const struct kern_ops kern_avx512_IQ4_XS = {.gemm = gemm, .rows = LANES};
