// SPDX-License-Identifier: MIT
/* kernels/cuda/sums.cu - per-column sums of squares of product inputs, in double. A thread adds a
 * column's rows in order, so the sums are bit-identical to those of a loop on the CPU. After the
 * columns of all matrices come the row counts, one per matrix. */
#include "kernels/cuda/gpu.cuh"

enum { THREADS = 256 };

/* Adds the squares of each column, a thread per column. */
CU_KERNEL __launch_bounds__(THREADS)
    column_sums(const float *x, int64_t n_rows, int64_t ld, int64_t k, double *sum) {
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i == 0) sum[k] += (double)n_rows;
    if (i >= k) return;
    double s = sum[i];
    for (int64_t r = 0; r < n_rows; r++) {
        const double v = (double)x[r * ld + i];
        s += v * v;
    }
    sum[i] = s;
}

/* Adds the squares of each expert's columns. The grid is columns and experts. Pair p reads row p
 * / per_row. */
CU_KERNEL __launch_bounds__(THREADS)
    expert_sums(const float *x, int64_t per_row, int64_t ld, int64_t k, const int32_t *first,
                const int32_t *order, double *sum) {
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, e = blockIdx.y;
    const int32_t from = first[e], to = first[e + 1];
    if (i == 0) sum[gridDim.y * k + e] += (double)(to - from);
    if (i >= k) return;
    double s = sum[e * k + i];
    for (int32_t p = from; p < to; p++) {
        const double v = (double)x[order[p] / per_row * ld + i];
        s += v * v;
    }
    sum[e * k + i] = s;
}

/* Adds part to all and sets part to 0. */
CU_KERNEL __launch_bounds__(THREADS) move_sums(double *part, double *all, int64_t n) {
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    all[i] += part[i];
    part[i] = 0;
}

/* Returns the CUDA blocks for n items. */
static unsigned blocks_for(int64_t n) {
    return (unsigned)div_up(n, THREADS);
}

/* Adds the squares of each column to sum [k + 1], and n_rows to its last element. */
int cu_column_sums(struct cu_stream *s, const float *x, int64_t n_rows, int64_t ld, int64_t k,
                   double *sum, struct err *e) {
    CU_LAUNCH(e, column_sums, blocks_for(k), THREADS, 0, s, x, n_rows, ld, k, sum);
    return 0;
}

/* Does the same as cu_column_sums() for each expert's rows. */
int cu_expert_sums(struct cu_stream *s, const float *x, int64_t per_row, int64_t ld, int64_t k,
                   const int32_t *first, const int32_t *order, int64_t n_experts, double *sum,
                   struct err *e) {
    CU_LAUNCH(e, expert_sums, dim3(blocks_for(k), (unsigned)n_experts), THREADS, 0, s, x, per_row,
              ld, k, first, order, sum);
    return 0;
}

/* Adds part[n] to all[n] and sets part to 0. */
int cu_move_sums(struct cu_stream *s, double *part, double *all, int64_t n, struct err *e) {
    CU_LAUNCH(e, move_sums, blocks_for(n), THREADS, 0, s, part, all, n);
    return 0;
}
