// SPDX-License-Identifier: MIT
/* kernels/avxvnni/lanes.h - AVX-VNNI primitives of kernels/rows/: those of avx2/lanes8.h, with the
 * products of rows/vnni.h. */
#ifndef HONE_KERNELS_AVXVNNI_LANES_H
#define HONE_KERNELS_AVXVNNI_LANES_H

#include "kernels/avx2/lanes8.h"

/* See avx2/lanes.h. The 16 registers hold two sums per token, codes and activations. */
enum { TILE = 6, DIRECT = 4, PANEL_FROM = 9 };

INLINE iv l_dot(iv s, iv w, iv x) {
    return _mm256_dpbusd_avx_epi32(s, w, x);
}
INLINE iv l_signed(iv v, int i) {
    return _mm256_srai_epi32(_mm256_slli_epi32(v, 24 - 8 * i), 24);
}

#include "kernels/rows/vnni.h"

#endif
