// SPDX-License-Identifier: MIT
/* kernels/cuda/act.cuh - rows of activations as the GEMV reads them, written by whatever kernel has
 * the values (quantize, norms, gates, the delta rule, attention): k codes of 8 bits in the order of
 * pack.cuh, then {d, d * sum of codes} for each 32; CU_ACT_BYTES(k) bytes, k a multiple of 64. */
#ifndef HONE_KERNELS_CUDA_ACT_CUH
#define HONE_KERNELS_CUDA_ACT_CUH

#include "kernels/cuda/gpu.cuh"

/* Where column i (0..63) of a tile lies among the tile's 64 activation codes: 16 bytes per c, in
 * them 4 per patch. */
CU_DEV int cu_act_pos(int i) {
    const int r = i % 16;
    return r % 8 / 2 * 16 + i / 16 * 4 + 2 * (r & 1) + r / 8;
}

/* Values 32g .. 32g + 31 of a row by a warp, a value per lane. */
CU_DEV void cu_act_store(uint8_t *row, int64_t k, int64_t g, float v) {
    const int l = (int)threadIdx.x % 32;
    const float d = cu_warp_max(fabsf(v)) / 127.0f;
    const float inv = d >= FLT_MIN ? 1.0f / d : 0; /* below the normal floats: codes 0 */
    const int q = (int)rintf(v * inv), sum = cu_warp_sum(q);
    row[g / 2 * 64 + cu_act_pos((int)(g % 2) * 32 + l)] = (uint8_t)q;
    if (l == 0) {
        float *meta = (float *)(void *)(row + k) + 2 * g;
        meta[0] = d;
        meta[1] = d * (float)sum;
    }
}

#endif
