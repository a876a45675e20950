// SPDX-License-Identifier: MIT
/* quantize/enc/avx512/trials.c - trial searches in sixteen lanes. */
#include <immintrin.h>
#define VL 16
#define TRIALS enc_trials_avx512
#define VMAX(v, lo) _mm512_max_ps(v, lo)
#define VMIN(v, hi) _mm512_min_ps(v, hi)
#define LOOKUP(table, j) _mm512_i32gather_ps((__m512i)(j), table, 4)
#include "quantize/enc/trials_tmpl.h"
