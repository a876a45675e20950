// SPDX-License-Identifier: MIT
/* kernels/avxvnni/iq4_xs.c - IQ4_XS by AVX-VNNI: packed rows, 8 at a time. */
#include "kernels/avxvnni/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/iq4_xs.h"

const struct kern_ops kern_avxvnni_IQ4_XS = {.gemm = gemm, .rows = LANES};
