// SPDX-License-Identifier: MIT
/* kernels/cuda/route.cu - expert routing: the experts of each token, and the tokens of each expert;
 * also the most likely token of a row of logits.
 *
 * Ties go to the lower index, and an expert's tokens are in token order. So choices and bits are
 * those of runtime/engine/cpu/moe.c, up to rounding in the router. */
#include "kernels/cuda/last.cuh"
#include "kernels/cuda/limits.h"

enum { BLOCK = 256, WARPS = BLOCK / 32, FEW_EXPERTS = 256 };

/* Lower bound of the sum of the chosen probabilities: the smallest normal f16, as in llama.cpp. */
#define MIN_SUM 6.1035e-5f

/* Replaces (*v, *i) by (v2, i2) if v2 is larger or, in a tie, if i2 is lower. */
CU_DEV void better_of(float *v, int *i, float v2, int i2) {
    if (v2 > *v || (v2 == *v && i2 < *i)) {
        *v = v2;
        *i = i2;
    }
}
CU_DEV void warp_best(float *v, int *i) {
    for (int m = 16; m > 0; m /= 2) {
        const float v2 = cu_shfl_xor(*v, m);
        const int i2 = cu_shfl_xor(*i, m);
        better_of(v, i, v2, i2);
    }
}

/* Computes the softmax of token t and picks the best remaining expert n_used times; a warp calls
 * it. PER is the number of experts per lane. */
template <int PER> CU_DEV void choose(const struct cu_choice &j, int64_t t) {
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
        if (!(p[k] >= 0.0f)) p[k] = 0.0f;             /* NaN: last, but eligible */
        if (32 * k + lane >= n_experts) p[k] = -2.0f; /* never chosen */
    }
    /* Keys have the order of the values, with chosen and missing experts below all others; among
     * equal values, the lower index comes first. */
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
        if (u % 32 == 31 && u < n_used - 1) { /* more choices than lanes: store weights for now */
            j.expert[t * n_used + u - 31 + lane] = which;
            j.weight[t * n_used + u - 31 + lane] = chosen;
        }
    }
    sum = fmaxf(sum, MIN_SUM);
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

/* Chooses the experts of plain routers, a warp per token. */
template <int PER>
CU_KERNEL __launch_bounds__(BLOCK) choose_experts(struct cu_choice j, int64_t n_tok) {
    const int64_t t = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    cu_wait_before();
    if (t < n_tok) choose<PER>(j, t); /* whole warps */
}

/* Chooses the experts of other routers, also a warp per token; p and the values that decide the
 * choice are in shared memory. */
CU_KERNEL __launch_bounds__(32) choose_any(struct cu_choice j) {
    CU_SHARED(float, p, [CU_MOST_EXPERTS]);
    CU_SHARED(float, by, [CU_MOST_EXPERTS]);
    CU_SHARED(float, best2, [CU_MOST_GROUPS]);
    const int lane = (int)threadIdx.x, n = (int)j.n_experts, n_used = (int)j.n_used;
    const int64_t t = blockIdx.x;
    float m = -INFINITY, sum = 0.0f;
    for (int i = lane; i < n; i += 32) {
        p[i] = j.logits[t * n + i] + (j.bias ? j.bias[i] : 0.0f);
        m = fmaxf(m, p[i]);
    }
    m = cu_warp_max(m);
    for (int i = lane; i < n; i += 32) {
        if (j.score == CU_SCORE_SOFTMAX) p[i] = expf(p[i] - m);
        if (j.score == CU_SCORE_SIGMOID) p[i] = cu_sigmoid(p[i]);
        sum += p[i];
    }
    sum = cu_warp_sum(sum);
    for (int i = lane; i < n; i += 32) {
        if (j.score == CU_SCORE_SOFTMAX) p[i] /= sum;
        by[i] = j.prefer ? p[i] + j.prefer[i] : p[i];
        if (!(by[i] > -INFINITY)) by[i] = -3e38f; /* NaN: last, but eligible */
    }
    cu_syncwarp();
    if (j.groups > 0) {
        const int groups = (int)j.groups, size = n / groups;
        for (int g = lane; g < groups; g += 32) {
            float a = -INFINITY, b = -INFINITY;
            for (int i = g * size; i < (g + 1) * size; i++) {
                b = fmaxf(b, fminf(a, by[i]));
                a = fmaxf(a, by[i]);
            }
            best2[g] = size > 1 && j.score != CU_SCORE_SOFTMAX ? a + b : a;
        }
        cu_syncwarp();
        for (int g = lane; g < groups; g += 32) { /* kept if fewer than `top` are better */
            int better = 0;
            for (int k = 0; k < groups; k++)
                better += best2[k] > best2[g] || (best2[k] == best2[g] && k < g);
            for (int i = g * size; better >= j.top && i < (g + 1) * size; i++) by[i] = -INFINITY;
        }
        cu_syncwarp();
    }
    sum = 0.0f;
    for (int u = 0; u < n_used; u++) {
        float v = -INFINITY;
        int i = n;
        for (int k = lane; k < n; k += 32) better_of(&v, &i, by[k], k);
        warp_best(&v, &i);
        float w = p[i];
        if (j.score == CU_SCORE_MIXER) {
            float near = 0.0f;
            for (int k = lane; k < n; k += 32)
                if (by[k] != -INFINITY && !((w - p[k]) / fmaxf(fabsf(p[k]), w) > j.margin))
                    near += expf(p[k] - w);
            w = 1.0f / cu_warp_sum(near);
        }
        sum += w;
        cu_syncwarp();
        if (lane == 0) {
            by[i] = -INFINITY;
            j.expert[t * n_used + u] = i;
            j.weight[t * n_used + u] = w;
        }
        cu_syncwarp();
    }
    float most = -INFINITY;
    for (int u = 0; u < n_used; u++) most = fmaxf(most, j.weight[t * n_used + u]);
    if (j.score == CU_SCORE_LOGIT) sum = 0.0f;
    for (int u = 0; u < n_used && j.score == CU_SCORE_LOGIT; u++)
        sum += expf(j.weight[t * n_used + u] - most);
    cu_syncwarp();
    for (int u = lane; u < n_used; u += 32) {
        const int64_t at = t * n_used + u;
        float w = j.weight[at];
        if (j.score == CU_SCORE_LOGIT)
            w = expf(w - most) / sum;
        else if (!j.keep)
            w /= fmaxf(sum, MIN_SUM);
        if (j.scale > 0) w *= j.scale;
        if (j.factor) w *= j.factor[j.expert[at]];
        j.weight[at] = w;
    }
}

/* Chooses the experts of n_tok tokens. ERR_USAGE: too many experts. */
int cu_route(struct cu_stream *s, const struct cu_choice *a, int64_t n_tok, struct err *e) {
    TRY(cu_check(CU_EXPERTS, a->n_experts, e));
    if (a->n_used > a->n_experts || a->n_used < 1)
        return err_set(e, ERR_USAGE, "CUDA: %lld of %lld experts", (long long)a->n_used,
                       (long long)a->n_experts);
    const unsigned grid = (unsigned)div_up(n_tok, WARPS);
    if (n_tok < 1) return 0;
    if (a->groups > 0) TRY(cu_check(CU_GROUPS, a->groups, e));
    if (a->groups > 0 && a->n_experts % a->groups)
        return err_set(e, ERR_USAGE, "CUDA: %lld expert groups are not supported",
                       (long long)a->groups);
    if (a->score || a->keep || a->scale > 0 || a->prefer || a->bias || a->groups > 0)
        CU_LAUNCH(e, choose_any, (unsigned)n_tok, 32, 0, s, *a);
    else if (a->n_experts <= FEW_EXPERTS)
        CU_LAUNCH_EARLY(e, choose_experts<FEW_EXPERTS / 32>, grid, BLOCK, 0, s, *a, n_tok);
    else
        CU_LAUNCH_EARLY(e, choose_experts<CU_MOST_EXPERTS / 32>, grid, BLOCK, 0, s, *a, n_tok);
    return 0;
}

/* ---- pairs sorted by expert ---- */

/* Counts the pairs of each expert e in first[e + 1]. */
CU_KERNEL __launch_bounds__(BLOCK) count_pairs(const int32_t *expert, int64_t n, int32_t *first) {
    CU_SHARED(float, red, [32]);
    float mine = 0.0f; /* exact: fewer than 2^24 pairs */
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) mine += expert[i] == (int32_t)blockIdx.x;
    mine = cu_block_sum(mine, red);
    if (threadIdx.x == 0) first[blockIdx.x + 1] = (int32_t)mine;
}

/* Fills place[i] for the pairs of expert e, in order. The block sums the counts of the preceding
 * experts. */
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

/* Sorts (token, expert) pairs by expert: computes each expert's count and first place, and the
 * order. */
int cu_sort_pairs(struct cu_stream *s, const int32_t *expert, int64_t n_pairs, int64_t n_experts,
                  int32_t *count, int32_t *first, int32_t *place, int32_t *order, struct err *e) {
    if (n_pairs >= 1 << 24) return err_set(e, ERR_USAGE, "CUDA: too many tokens in a pass");
    CU_LAUNCH(e, count_pairs, (unsigned)n_experts, BLOCK, 0, s, expert, n_pairs, count);
    CU_LAUNCH(e, place_pairs, (unsigned)n_experts, BLOCK, 0, s, expert, n_pairs, count, first,
              place, order);
    return 0;
}
