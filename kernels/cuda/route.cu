// SPDX-License-Identifier: MIT
/* kernels/cuda/route.cu - which experts a token uses, and the tokens of each expert; the most
 * likely token of a row of logits.
 *
 * Ties go to the lower index everywhere, and the order inside an expert is token order: the same
 * choice and the same bits as runtime/exec_moe.c up to the router's rounding. */
#include "kernels/cuda/gpu.cuh"

enum { BLOCK = 256, WARPS = BLOCK / 32, MAX_EXPERTS = 1024, PER_LANE = MAX_EXPERTS / 32 };

/* llama.cpp's floor under the sum of the selected probabilities: smallest normal f16. */
#define MIN_SUM 6.1035e-5f

/* The larger value, of equals the lower index. */
CU_DEV void better(float *v, int *i, float v2, int i2) {
    if (v2 > *v || (v2 == *v && i2 < *i)) {
        *v = v2;
        *i = i2;
    }
}
CU_DEV void warp_best(float *v, int *i) {
    for (int m = 16; m > 0; m /= 2) {
        const float v2 = cu_shfl_xor(*v, m);
        const int i2 = cu_shfl_xor(*i, m);
        better(v, i, v2, i2);
    }
}

/* Softmax, then n_used times the best that is left. A warp per token. */
CU_KERNEL __launch_bounds__(BLOCK)
    choose_experts(const float *logits, const float *factor, int64_t n_tok, int n_experts,
                   int n_used, int32_t *expert, float *weight) {
    const int lane = (int)threadIdx.x % 32;
    const int64_t t = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (t >= n_tok) return; /* whole warps */
    const float *x = logits + t * n_experts;
    float p[PER_LANE], m = -INFINITY, sum = 0.0f;
    CU_UNROLL
    for (int k = 0; k < PER_LANE; k++) {
        p[k] = 32 * k + lane < n_experts ? x[32 * k + lane] : -INFINITY;
        m = fmaxf(m, p[k]);
    }
    m = cu_warp_max(m);
    CU_UNROLL
    for (int k = 0; k < PER_LANE; k++)
        if (32 * k + lane < n_experts) {
            p[k] = expf(p[k] - m);
            sum += p[k];
        }
    sum = cu_warp_sum(sum);
    CU_UNROLL
    for (int k = 0; k < PER_LANE; k++) {
        p[k] /= sum;
        if (!(p[k] >= 0.0f)) p[k] = 0.0f;             /* NaN: last, but there */
        if (32 * k + lane >= n_experts) p[k] = -2.0f; /* never */
    }
    float chosen = 0.0f; /* lane u keeps choice u */
    int which = 0;
    sum = 0.0f;
    for (int u = 0; u < n_used; u++) {
        float v = -3.0f;
        int i = n_experts;
        CU_UNROLL
        for (int k = 0; k < PER_LANE; k++) better(&v, &i, p[k], 32 * k + lane);
        warp_best(&v, &i);
        CU_UNROLL
        for (int k = 0; k < PER_LANE; k++)
            if (32 * k + lane == i) p[k] = -1.0f; /* taken */
        sum += v;
        if (lane == u % 32) {
            chosen = v;
            which = i;
        }
        if (u % 32 == 31 || u == n_used - 1) {
            const int at = u / 32 * 32 + lane;
            if (at <= u) {
                expert[t * n_used + at] = which;
                weight[t * n_used + at] = chosen;
            }
        }
    }
    cu_syncwarp();
    sum = fmaxf(sum, MIN_SUM);
    for (int u = lane; u < n_used; u += 32) {
        const int64_t i = t * n_used + u;
        float w = weight[i] / sum;
        if (factor) w *= factor[expert[i]];
        weight[i] = w;
    }
}

int cu_route(struct cu_stream *s, const float *logits, const float *factor, int64_t n_tok,
             int64_t n_experts, int64_t n_used, int32_t *expert, float *weight, struct err *e) {
    if (n_experts > MAX_EXPERTS || n_used > n_experts || n_used < 1)
        return err_set(e, ERR_USAGE, "CUDA: %lld of %lld experts; at most %d are supported",
                       (long long)n_used, (long long)n_experts, MAX_EXPERTS);
    if (n_tok > 0)
        CU_LAUNCH(e, choose_experts, (unsigned)div_up(n_tok, WARPS), BLOCK, 0, s, logits, factor,
                  n_tok, (int)n_experts, (int)n_used, expert, weight);
    return 0;
}

/* ---- pairs sorted by expert ---- */

/* first[e + 1] = pairs of expert e. */
CU_KERNEL __launch_bounds__(BLOCK) count_pairs(const int32_t *expert, int64_t n, int32_t *first) {
    CU_SHARED(float, red, [32]);
    float mine = 0.0f; /* exact: fewer than 2^24 pairs */
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) mine += expert[i] == (int32_t)blockIdx.x;
    mine = cu_block_sum(mine, red);
    if (threadIdx.x == 0) first[blockIdx.x + 1] = (int32_t)mine;
}

/* place[i] of the pairs of expert e, in order; the block sums the counts before its own. */
CU_KERNEL __launch_bounds__(BLOCK)
    place_pairs(const int32_t *expert, int64_t n, const int32_t *count, int32_t *first,
                int32_t *place, int32_t *order) {
    CU_SHARED(float, red, [32]);
    CU_SHARED(int, in_warp, [WARPS]);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, mine = (int)blockIdx.x;
    float before = 0.0f;
    for (int i = (int)threadIdx.x; i < mine; i += BLOCK) before += (float)count[i + 1];
    int at = (int)cu_block_sum(before, red);
    if (threadIdx.x == 0) {
        first[mine] = at;
        if (mine == (int)gridDim.x - 1) first[mine + 1] = at + count[mine + 1];
    }
    for (int64_t i0 = 0; i0 < n; i0 += BLOCK) {
        const int64_t i = i0 + threadIdx.x;
        const bool is = i < n && expert[i] == mine;
        const uint32_t votes = cu_ballot(is);
        if (lane == 0) in_warp[warp] = cu_popc(votes);
        __syncthreads();
        int to = at + cu_popc(votes & ((1u << lane) - 1u));
        for (int w = 0; w < WARPS; w++) {
            if (w < warp) to += in_warp[w];
            at += in_warp[w];
        }
        if (is) {
            place[i] = to;
            order[to] = (int32_t)i;
        }
        __syncthreads();
    }
}

int cu_sort_pairs(struct cu_stream *s, const int32_t *expert, int64_t n_pairs, int64_t n_experts,
                  int32_t *count, int32_t *first, int32_t *place, int32_t *order, struct err *e) {
    if (n_pairs >= 1 << 24) return err_set(e, ERR_USAGE, "CUDA: too many tokens in a pass");
    CU_LAUNCH(e, count_pairs, (unsigned)n_experts, BLOCK, 0, s, expert, n_pairs, count);
    CU_LAUNCH(e, place_pairs, (unsigned)n_experts, BLOCK, 0, s, expert, n_pairs, count, first,
              place, order);
    return 0;
}

/* ---- greedy sampling ---- */

/* Best of a slice per block, then the last block to finish picks among them. */
enum { SLICES = 64 };
CU_KERNEL __launch_bounds__(BLOCK) best_token(const float *x, int64_t n, float *best,
                                              int32_t *which, int32_t *arrived, int32_t *id) {
    CU_SHARED(float, sv, [WARPS]);
    CU_SHARED(int, si, [WARPS]);
    CU_SHARED(int, is_last, [1]);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t per = (n + gridDim.x - 1) / gridDim.x, lo = blockIdx.x * per;
    const int64_t hi = lo + per < n ? lo + per : n;
    float v = -INFINITY;
    int i = 0x7fffffff;
    for (int64_t k = lo + threadIdx.x; k < hi; k += BLOCK)
        if (x[k] > v || i == 0x7fffffff) {
            v = x[k];
            i = (int)k;
        }
    warp_best(&v, &i);
    if (lane == 0) {
        sv[warp] = v;
        si[warp] = i;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < WARPS; w++) better(&v, &i, sv[w], si[w]);
        best[blockIdx.x] = v;
        which[blockIdx.x] = i;
        cu_fence();
        is_last[0] = cu_atomic_add(arrived, 1) == (int)gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last[0] || threadIdx.x) return;
    cu_fence();
    volatile float *b = best;
    volatile int32_t *w = which;
    v = b[0];
    i = w[0];
    for (int k = 1; k < (int)gridDim.x; k++) better(&v, &i, b[k], w[k]);
    *id = i < n ? i : 0;
    *arrived = 0;
}

int cu_argmax(struct cu_stream *s, const float *x, int64_t n, float *best, int32_t *which,
              int32_t *arrived, int32_t *id, struct err *e) {
    if (n < 1 || n > INT32_MAX) return err_set(e, ERR_USAGE, "CUDA: no logits to choose from");
    CU_LAUNCH(e, best_token, (unsigned)(n < 64 * SLICES ? 1 : SLICES), BLOCK, 0, s, x, n, best,
              which, arrived, id);
    return 0;
}
