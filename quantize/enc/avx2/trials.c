// SPDX-License-Identifier: MIT
/* quantize/enc/avx2/trials.c - trial searches in eight lanes. */
#include <immintrin.h>
#define VL 8
#define TRIALS enc_trials_avx2
#define VMAX(v, lo) _mm256_max_ps(v, lo)
#define VMIN(v, hi) _mm256_min_ps(v, hi)
#define LOOKUP(table, j) _mm256_i32gather_ps(table, (__m256i)(j), 4)
#include "quantize/enc/trials_tmpl.h"
