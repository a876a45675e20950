// SPDX-License-Identifier: MIT
/* quantize/enc/avx2/lanes.c - AVX2 version of quantize/enc/lanes.c: the block searches. */
#define LANES_TABLE enc_lanes_avx2
#include "quantize/enc/lanes.c"
