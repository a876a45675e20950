// SPDX-License-Identifier: MIT
/* quantize/enc/avx2/lanes.c - the searches over blocks, for AVX2. */
#define LANES_TABLE enc_lanes_avx2
#include "quantize/enc/lanes.c"
