// SPDX-License-Identifier: MIT
/* kernels/cuda/gemm.cuh - what the two products of many tokens share: gemm.cu (mma, and all that
 * is around a product) and gemm_sm90.cu (wgmma). */
#ifndef HONE_KERNELS_CUDA_GEMM_CUH
#define HONE_KERNELS_CUDA_GEMM_CUH

#include "kernels/cuda/pack.cuh"

/* Who computes what: a task is `tokens` rows of the list from `first`, of matrix `mat`. */
struct cu_task {
    int mat, first, tokens;
};
struct cu_gemm_job {
    const uint8_t *w;
    uint64_t mat_bytes;
    int k, rows;
    const uint16_t *x; /* bf16, contiguous rows */
    unsigned x_div;
    const struct cu_task *task; /* NULL: one matrix, rows in order */
    const int *n_tasks, *list;
    int n_in;
    const float *mul; /* NULL, or the factor of each output: out = act(out) * mul */
    bool gelu;
    float *y;
    int64_t ldy;
};
/* A kernel over grid (tasks, groups of 16 * warps rows). */
struct cu_gemm_kernel {
    enum qtype type;
    int tokens, warps, smem; /* most tokens of a task; warps of a block and its bytes */
    void (*fn)(struct cu_gemm_job);
};

/* The task of this block, of at most n tokens; false: there is none. */
CU_DEV bool cu_task_of(const struct cu_gemm_job &j, int n, struct cu_task *t) {
    const int i = (int)blockIdx.x;
    if (!j.task) {
        *t = {0, i * n, (int)cu_min(n, j.n_in - i * n)};
        return true;
    }
    if (i >= *j.n_tasks) return false;
    *t = j.task[i];
    return true;
}
/* Input row of the task's token n. */
CU_DEV int cu_task_row(const struct cu_gemm_job &j, const struct cu_task &t, int n) {
    return j.task ? j.list[t.first + n] : t.first + n;
}

/* The A operand of one patch. */
template <class B>
CU_DEV void cu_operand(const struct cu_super<B> &s, int tile, int patch, uint32_t (&a)[4]) {
    CU_UNROLL
    for (int b = 0; b < 2; b++) {
        const uint32_t q = (uint32_t)cu_codes(s, tile, patch, b);
        float sc, mn, v[4];
        cu_patch_scale(s, tile, patch, b, &sc, &mn);
        CU_UNROLL
        for (int i = 0; i < 4; i++) v[i] = sc * (float)cu_sbyte(q, i) - mn;
        a[b] = cu_pack_bf16(v[0], v[2]);
        a[2 + b] = cu_pack_bf16(v[1], v[3]);
    }
}

/* gemm_sm90.cu: the kernel for such matrices, on devices where cu_use_wgmma said yes. */
struct cu_gemm_kernel cu_gemm_sm90(enum qtype t, int64_t k, int64_t rows);

#endif
