// SPDX-License-Identifier: MIT
/* kernels/cuda/last.cuh - what the last block of a launch to finish may do for all: add a residual
 * and norm the sum, choose experts. Also done by launches of their own (elem.cu, route.cu), to the
 * same bits. What other blocks wrote is read past the near cache (cu_ldcg). */
#ifndef HONE_KERNELS_CUDA_LAST_CUH
#define HONE_KERNELS_CUDA_LAST_CUH

#include "kernels/cuda/act.cuh"

/* Returns true in all threads of the block that is the last of n to come here; all writes of the
 * others are then visible. *arrived is 0 before, and again after the last. is_last is shared
 * memory. */
CU_DEV bool cu_is_last(int32_t *arrived, int n, int *is_last) {
    __syncthreads();
    if (threadIdx.x == 0) { /* its fences are for the block: they lie behind and before a barrier */
        cu_fence();
        *is_last = cu_atomic_add(arrived, 1) == n - 1;
        if (*is_last) *arrived = 0;
        cu_fence();
    }
    __syncthreads();
    return *is_last != 0;
}

CU_DEV float cu_sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

/* ---- norms ---- */

enum {
    CU_NORM_BLOCK = 256,
    CU_NORM_HELD = 8
}; /* threads; values of a thread that stay in registers */

/* Computes a row of struct cu_norm by a block of CU_NORM_BLOCK threads. red is 32 floats of
 * shared memory. y may be any of the inputs, since all of a row is read before any of it is
 * written. */
CU_DEV void cu_norm_row(const struct cu_norm &j, int64_t row, float *red) {
    const int n = (int)j.n, d = (int)j.d;
    const int64_t at = row * n;
    const float *a = j.a + at, *x = j.x ? j.x + at : NULL, *res = j.res ? j.res + at : NULL;
    float g = 0, s = 0, held[CU_NORM_HELD], w[CU_NORM_HELD];
    if (j.x) {
        const float *h = j.h + row * d;
        for (int i = (int)threadIdx.x; i < d; i += CU_NORM_BLOCK)
            g = fmaf(j.gate[i], cu_ldcg(&h[i]), g);
        g = cu_sigmoid(cu_block_sum(g, red));
    }
    const bool all_held = n <= CU_NORM_HELD * CU_NORM_BLOCK;
    for (int i0 = (int)threadIdx.x; i0 < n; i0 += CU_NORM_HELD * CU_NORM_BLOCK) {
        float xs[CU_NORM_HELD], rs[CU_NORM_HELD]; /* all loads before the first store */
        CU_UNROLL
        for (int c = 0; c < CU_NORM_HELD; c++) {
            const int i = i0 + c * CU_NORM_BLOCK;
            held[c] = i < n ? cu_ldcg(&a[i]) : 0.0f;
            xs[c] = x && i < n ? cu_ldcg(&x[i]) : 0.0f;
            rs[c] = res && i < n ? cu_ldcg(&res[i]) : 0.0f;
            if (all_held) w[c] = j.w && i < n ? cu_ldg(&j.w[i]) : 1.0f;
        }
        CU_UNROLL
        for (int c = 0; c < CU_NORM_HELD; c++) {
            const int i = i0 + c * CU_NORM_BLOCK;
            if (x) held[c] = fmaf(xs[c], g, held[c]);
            if (res) held[c] = rs[c] + held[c];
            if (j.sum && i < n) j.sum[at + i] = held[c];
        }
        CU_UNROLL
        for (int c = 0; c < CU_NORM_HELD; c++) s = fmaf(held[c], held[c], s);
    }
    const float r = 1.0f / sqrtf(cu_block_sum(s, red) / (float)n + j.eps);
    const float *t = j.sum ? j.sum + at : a;
    float *y = j.y + at;
    uint8_t *yq = j.yq ? (uint8_t *)j.yq + row * CU_ACT_BYTES(n) : NULL;
    for (int i0 = (int)threadIdx.x; i0 < n; i0 += CU_NORM_HELD * CU_NORM_BLOCK) {
        CU_UNROLL
        for (int c = 0; c < CU_NORM_HELD; c++) {
            const int i = i0 + c * CU_NORM_BLOCK;
            if (!all_held) {
                held[c] = i < n ? cu_ldcg(&t[i]) : 0.0f;
                w[c] = j.w && i < n ? j.w[i] : 1.0f;
            }
            held[c] *= r;
            if (j.w) held[c] *= w[c];
        }
        CU_UNROLL
        for (int c = 0; c < CU_NORM_HELD; c++)
            if (i0 + c * CU_NORM_BLOCK < n) y[i0 + c * CU_NORM_BLOCK] = held[c];
        if (yq) /* whole warps: n is a multiple of 32 */
            cu_act_store_each<CU_NORM_HELD>(yq, n, i0 / 32, CU_NORM_BLOCK / 32, n / 32, held);
    }
}

/* ---- experts ---- */

enum { CU_MAX_EXPERTS = 1024 };

/* llama.cpp's floor under the sum of the selected probabilities: smallest normal f16. */
#define CU_MIN_SUM 6.1035e-5f

/* Takes the larger value, and of equals that with the lower index. */
CU_DEV void cu_better(float *v, int *i, float v2, int i2) {
    if (v2 > *v || (v2 == *v && i2 < *i)) {
        *v = v2;
        *i = i2;
    }
}
CU_DEV void cu_warp_best(float *v, int *i) {
    for (int m = 16; m > 0; m /= 2) {
        const float v2 = cu_shfl_xor(*v, m);
        const int i2 = cu_shfl_xor(*i, m);
        cu_better(v, i, v2, i2);
    }
}

/* Computes the softmax and takes n_used times the best that is left, for token t by a warp. PER
 * is the experts of a lane. */
template <int PER> CU_DEV void cu_choose(const struct cu_choice &j, int64_t t) {
    const int lane = (int)threadIdx.x % 32, n_experts = (int)j.n_experts, n_used = (int)j.n_used;
    const float *x = j.logits + t * n_experts;
    float p[PER], m = -INFINITY, sum = 0.0f;
    CU_UNROLL
    for (int k = 0; k < PER; k++) {
        p[k] = 32 * k + lane < n_experts ? cu_ldcg(&x[32 * k + lane]) : -INFINITY;
        m = fmaxf(m, p[k]);
    }
    m = cu_warp_max(m);
    CU_UNROLL
    for (int k = 0; k < PER; k++)
        if (32 * k + lane < n_experts) {
            p[k] = expf(p[k] - m);
            sum += p[k];
        }
    sum = cu_warp_sum(sum);
    CU_UNROLL
    for (int k = 0; k < PER; k++) {
        p[k] /= sum;
        if (!(p[k] >= 0.0f)) p[k] = 0.0f;             /* NaN: last, but there */
        if (32 * k + lane >= n_experts) p[k] = -2.0f; /* never */
    }
    /* A key orders values as they are and puts those that are taken or not there below all; of
     * equals the lower index is first. */
    uint32_t key[PER];
    CU_UNROLL
    for (int k = 0; k < PER; k++) key[k] = p[k] >= 0.0f ? (cu_bits(p[k]) & 0x7fffffffu) + 1 : 0;
    float chosen = 0.0f; /* lane u % 32 keeps choice u */
    int which = 0;
    sum = 0.0f;
    for (int u = 0; u < n_used; u++) {
        uint32_t top = 0, at = 0xffffffffu;
        CU_UNROLL
        for (int k = 0; k < PER; k++)
            if (key[k] > top) {
                top = key[k];
                at = (uint32_t)(32 * k + lane);
            }
        const uint32_t most = cu_warp_most(top);
        const uint32_t i = cu_warp_least(top == most ? at : 0xffffffffu);
        CU_UNROLL
        for (int k = 0; k < PER; k++)
            if ((uint32_t)(32 * k + lane) == i) key[k] = 0;
        const float v = cu_from_bits(most - 1);
        sum += v;
        if (lane == u % 32) {
            chosen = v;
            which = (int)i;
        }
        if (u % 32 == 31 && u < n_used - 1) { /* more than there are lanes: weights for now */
            j.expert[t * n_used + u - 31 + lane] = which;
            j.weight[t * n_used + u - 31 + lane] = chosen;
        }
    }
    sum = fmaxf(sum, CU_MIN_SUM);
    const int last = (n_used - 1) / 32 * 32;
    for (int u = lane; u < n_used; u += 32) {
        const int64_t i = t * n_used + u;
        float w = (u < last ? j.weight[i] : chosen) / sum;
        const int e = u < last ? j.expert[i] : which;
        if (j.factor) w *= j.factor[e];
        j.expert[i] = e;
        j.weight[i] = w;
    }
}

#endif
