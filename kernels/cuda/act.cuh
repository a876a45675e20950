// SPDX-License-Identifier: MIT
/* kernels/cuda/act.cuh - quantized rows of activations for the GEMV, written by the kernel that
 * produces the values (quantize, norms, gates, delta rule, attention). A row has k 8-bit codes in
 * the order of pack.cuh, then {d, d * sum of codes} for each 32 of them: CU_ACT_BYTES(k) bytes. k
 * is a multiple of 64. */
#ifndef HONE_KERNELS_CUDA_ACT_CUH
#define HONE_KERNELS_CUDA_ACT_CUH

#include "kernels/cuda/gpu.cuh"

/* Returns the position of column i (0..63) of a tile among the tile's 64 activation codes: 16
 * bytes per c, and within them 4 per patch. */
CU_DEV int cu_act_pos(int i) {
    const int r = i % 16;
    return r % 8 / 2 * 16 + i / 16 * 4 + 2 * (r & 1) + r / 8;
}

/* Rounds and stores N groups of 32 values of a row; a warp calls it, with one value of each group
 * per lane. v[i] belongs to group g + i * step; groups n and above are skipped. Slow steps are done
 * for all groups together. */
template <int N>
CU_DEV void cu_act_store_each(uint8_t *row, int64_t k, int g, int step, int n, const float *v) {
    const int l = (int)threadIdx.x % 32;
    float d[N];
    int q[N], sum[N];
    CU_UNROLL
    for (int i = 0; i < N; i++) d[i] = fabsf(v[i]);
    cu_warp_max_each<N>(d);
    CU_UNROLL
    for (int i = 0; i < N; i++) {
        d[i] /= 127.0f;
        const float inv = d[i] >= FLT_MIN ? 1.0f / d[i] : 0; /* below the normal floats: codes 0 */
        q[i] = sum[i] = cu_round(v[i] * inv);
    }
    cu_warp_sum_each<int, N>(sum);
    CU_UNROLL
    for (int i = 0; i < N; i++) {
        const int at = g + i * step;
        if (at >= n) continue;
        row[at / 2 * 64 + cu_act_pos(at % 2 * 32 + l)] = (uint8_t)q[i];
        if (l == 0) {
            float *meta = (float *)(void *)(row + k) + 2 * at;
            meta[0] = d[i];
            meta[1] = d[i] * (float)sum[i];
        }
    }
}
/* Rounds and stores values 32g .. 32g + 31 of a row; a warp calls it, with one value per lane. */
CU_DEV void cu_act_store(uint8_t *row, int64_t k, int64_t g, float v) {
    cu_act_store_each<1>(row, k, (int)g, 1, (int)g + 1, &v);
}

#endif
