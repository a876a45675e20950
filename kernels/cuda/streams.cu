// SPDX-License-Identifier: MIT
/* kernels/cuda/streams.cu - operators for models with several residual streams: OP_MIX, OP_SPREAD,
 * OP_LEVEL and OP_PEAKS of models/ops.def. Sums are f32, per thread and then as a tree. */
#include "kernels/cuda/last.cuh"

enum { BLOCK = 256 };

/* Mixes streams, a thread per value of y. A row has n values of each of k streams. */
CU_KERNEL __launch_bounds__(BLOCK)
    mix_values(const float *x, const float *c, float *y, int64_t total, int64_t n, int k) {
    const int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= total) return;
    const int64_t row = i / n, w = n / k, at = i % n, a = at / w;
    const float *xs = x + row * n + at % w, *cs = c + (row * k + a) * k;
    float sum = xs[a * w];
    for (int b = 0; b < k; b++) sum = fmaf(cs[b], xs[b * w], sum);
    y[i] = sum;
}
/* Mixes k streams with the coefficients c [k][k] of each row. */
int cu_mix(struct cu_stream *s, const float *x, const float *c, float *y, int64_t n_rows, int64_t n,
           int k, struct err *e) {
    const int64_t total = n_rows * n;
    if (total > 0)
        CU_LAUNCH(e, mix_values, (unsigned)div_up(total, BLOCK), BLOCK, 0, s, x, c, y, total, n, k);
    return 0;
}

CU_KERNEL __launch_bounds__(BLOCK) spread_values(const float *x, const float *c, float *y,
                                                 int64_t total, int64_t n, int64_t w, int first) {
    const int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= total) return;
    const int64_t row = i / n, a = i % n / w;
    if (a < first) return;
    y[i] = fmaf(c ? 1.0f + c[row * (n / w) + a] : 1.0f, x[row * w + i % w], y[i]);
}
/* Adds x [w], times c, to stream `first` and all later ones; c NULL: unscaled. */
int cu_spread(struct cu_stream *s, const float *x, const float *c, float *y, int64_t n_rows,
              int64_t n, int64_t w, int first, struct err *e) {
    const int64_t total = n_rows * n;
    if (total > 0)
        CU_LAUNCH(e, spread_values, (unsigned)div_up(total, BLOCK), BLOCK, 0, s, x, c, y, total, n,
                  w, first);
    return 0;
}

/* Scales each stream of y to the root mean square of its row of x, a block per stream; `per`
 * consecutive streams use the same row. */
CU_KERNEL __launch_bounds__(BLOCK) level_rows(const float *x, float *y, int64_t w, int per) {
    CU_SHARED(float, red, [32]);
    const float *xr = x + (int64_t)(blockIdx.x / (unsigned)per) * w;
    float *yr = y + blockIdx.x * w;
    float a = 0, b = 0;
    for (int64_t i = threadIdx.x; i < w; i += BLOCK) a = fmaf(xr[i], xr[i], a);
    a = cu_block_sum(a, red) / (float)w;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < w; i += BLOCK) b = fmaf(yr[i], yr[i], b);
    b = fmaxf(cu_block_sum(b, red) / (float)w, 1e-5f);
    const float by = sqrtf(a / b);
    for (int64_t i = threadIdx.x; i < w; i += BLOCK) yr[i] *= by;
}
/* Scales the streams of w values to equal magnitude, row by row. */
int cu_level(struct cu_stream *s, const float *x, float *y, int64_t n_rows, int64_t n, int64_t w,
             struct err *e) {
    const int per = (int)(n / w);
    if (n_rows > 0) CU_LAUNCH(e, level_rows, (unsigned)(n_rows * per), BLOCK, 0, s, x, y, w, per);
    return 0;
}

/* Reduces rows to their peaks (OP_PEAKS), a block per row; x may be y. */
CU_KERNEL __launch_bounds__(BLOCK) peaks_rows(const float *x, float *y, int64_t n, float by) {
    CU_SHARED(float, red, [32]);
    const float *xr = x + blockIdx.x * n;
    float *yr = y + blockIdx.x * n, mean = 0, sq = 0;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) mean += xr[i];
    mean = cu_block_sum(mean, red) / (float)n;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) sq = fmaf(xr[i] - mean, xr[i] - mean, sq);
    const float cut = mean + by * sqrtf(cu_block_sum(sq, red) / (float)n);
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) yr[i] = fmaxf(0.0f, xr[i] - cut);
}
/* Replaces each value by its excess over mean + by * deviation; values below that become 0. */
int cu_peaks(struct cu_stream *s, const float *x, float *y, int64_t n_rows, int64_t n, float by,
             struct err *e) {
    if (n_rows > 0) CU_LAUNCH(e, peaks_rows, (unsigned)n_rows, BLOCK, 0, s, x, y, n, by);
    return 0;
}
