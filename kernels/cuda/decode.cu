// SPDX-License-Identifier: MIT
/* kernels/cuda/decode.cu - blocks to f32, a thread per weight. Not a hot path. */
#include "kernels/cuda/gpu.cuh"

CU_KERNEL decode_f32(const float *blk, int64_t k, const int32_t *rows, float scale, float *dst,
                     int64_t ld) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (i < k) dst[r * ld + i] = scale * blk[(rows ? rows[r] : r) * k + i];
}

int cu_decode_rows(struct cu_stream *s, enum qtype t, const void *blk, int64_t k,
                   const int32_t *rows, int64_t n_rows, float scale, float *dst, int64_t ld,
                   struct err *e) {
    if (t != QT_F32) return err_set(e, ERR_USAGE, "CUDA: no decoder of %s", qtype_name(t));
    const dim3 grid((unsigned)div_up(k, 256), (unsigned)n_rows);
    CU_LAUNCH(e, decode_f32, grid, 256, 0, s, (const float *)blk, k, rows, scale, dst, ld);
    return 0;
}
