// SPDX-License-Identifier: MIT
/* quantize/enc/lanes.c - the searches over blocks, for one instruction set: this file, compiled as
 * it is, for what every processor has; avx2/lanes.c includes it again. */
#include "quantize/enc/lanes_aff.h"
#include "quantize/enc/lanes_b32.h"
#include "quantize/enc/lanes_sym.h"

#ifndef LANES_TABLE
#define LANES_TABLE enc_lanes_base
#endif

static void round_f16(float v[8]) {
    storev(v, f16v(loadv(v)));
}

const struct enc_lanes LANES_TABLE = {
    {aff_open, sym_open, b32_open}, load, weights, mean2, balance, round_f16};
