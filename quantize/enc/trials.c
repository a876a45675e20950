// SPDX-License-Identifier: MIT
/* quantize/enc/trials.c - trial searches in four lanes: what every processor has. */
#define VL 4
#define TRIALS enc_trials_base
#ifdef __SSE2__
#include <immintrin.h>
#define VMAX(v, lo) _mm_max_ps(v, lo)
#define VMIN(v, hi) _mm_min_ps(v, hi)
#endif
#include "quantize/enc/trials_tmpl.h"
