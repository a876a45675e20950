// SPDX-License-Identifier: MIT
/* kernels/avxvnni/iq4_nl.c - IQ4_NL by AVX-VNNI: packed rows, 8 at a time. */
#include "kernels/avxvnni/lanes.h"
#include "kernels/ops.h"
#include "kernels/rows/iq4_nl.h"

const struct kern_ops kern_avxvnni_IQ4_NL = {.gemm = gemm, .rows = LANES};
