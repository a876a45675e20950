// SPDX-License-Identifier: MIT
/* kernels/cuda/split.cuh - attention for few tokens with the keys split into parts: definitions
 * shared by the kernels that compute parts (cores.cuh on CUDA cores, few.cuh on tensor cores), and
 * the kernel that merges parts.
 *
 * Every kernel derives the split from the position in device memory, so one captured launch serves
 * every sequence and depth; surplus blocks exit. */
#ifndef HONE_KERNELS_CUDA_SPLIT_CUH
#define HONE_KERNELS_CUDA_SPLIT_CUH

#include "kernels/cuda/act.cuh"
#include "kernels/cuda/attn.cuh"

/* The keys visible to any of the tokens, and their split. */
struct cut {
    int64_t k0, n_keys, step; /* first key, keys, keys per part */
    int n;
};
enum { MIN_PART = 64, PART_UNIT = 16 };
CU_DEV struct cut cut_keys(const struct attn_job &j, const struct cu_seg &seg) {
    struct cut c;
    const int64_t seen = (int64_t)seg.pos + 1; /* by the first token */
    c.k0 = attn_first(j, seen);
    c.n_keys = seen - c.k0 + seg.n - 1;
    /* Positions are below 2^31, so use the faster 32-bit division: every thread waits for it. */
    const uint32_t n = (uint32_t)c.n_keys, parts = (uint32_t)j.n_splits;
    uint32_t step = ((n + parts - 1) / parts + PART_UNIT - 1) / PART_UNIT * PART_UNIT;
    if (step < MIN_PART) step = MIN_PART;
    c.step = step;
    c.n = (int)((n + step - 1) / step);
    return c;
}
/* Returns the softmax of a part. j.part holds [rows][n_splits][dim] sums, then the softmaxes; the
 * rows of segment z begin at z * longest * n_heads. */
CU_DEV struct softmax *part_stat(const struct attn_job &j, int64_t row, int part) {
    const int64_t rows = (int64_t)j.n_segs * j.longest * j.n_heads;
    return (struct softmax *)(void *)(j.part + rows * j.n_splits * j.k.dim) + row * j.n_splits +
           part;
}

/* The merge adds the parts and applies the gate. The grid is (32 values of a head, rows of a
 * segment, segments). Each warp sums every eighth part, in order, so that loads overlap; then the
 * warps' sums are added in order. Shared memory holds a weight for each part. */
enum { MERGE_WARPS = 8, MERGE_BLOCK = 32 * MERGE_WARPS };
CU_KERNEL __launch_bounds__(MERGE_BLOCK) merge_parts(struct attn_job j) {
    CU_SHARED(float, red, [32]);
    CU_SHARED(float, of_warp, [MERGE_WARPS][32]);
    CU_DYN_SHARED(float, weight);
    cu_wait_before();
    const struct cu_seg seg = j.seg[blockIdx.z];
    if ((int)blockIdx.y >= seg.n * j.n_heads) return;
    const struct cut c = cut_keys(j, seg);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, dim = j.k.dim;
    const int i = 32 * (int)blockIdx.x + lane;
    const int64_t row = (int64_t)seg.row * j.n_heads + blockIdx.y;
    const int64_t mine = (int64_t)blockIdx.z * j.longest * j.n_heads + blockIdx.y;
    const struct softmax *stat = part_stat(j, mine, 0);
    const float *part = j.part + mine * j.n_splits * dim + i;
    float m = -INFINITY, s = 0.0f, v = 0.0f;
    for (int p = (int)threadIdx.x; p < c.n; p += MERGE_BLOCK) m = fmaxf(m, stat[p].top);
    m = cu_block_max(m, red);
    for (int p = (int)threadIdx.x; p < c.n; p += MERGE_BLOCK) {
        weight[p] = expf(stat[p].top - m);
        s += weight[p] * stat[p].sum;
    }
    s = cu_block_sum(s, red); /* the weights are complete, too */
    for (int p = warp; i < dim && p < c.n; p += MERGE_WARPS)
        v = fmaf(weight[p], part[(int64_t)p * dim], v);
    of_warp[warp][lane] = v;
    __syncthreads();
    if (warp) return;
    for (int w = 1; w < MERGE_WARPS; w++) v += of_warp[w][lane];
    v /= s;
    if (i < dim) v = attn_store(j, row, dim, i, v);
    if (!j.out_q) return; /* uniform; then dim is a multiple of 32 */
    const int64_t k = (int64_t)j.n_heads * dim, at = row % j.n_heads * dim + i;
    cu_act_store(j.out_q + row / j.n_heads * CU_ACT_BYTES(k), k, at / 32, v);
}

#endif
