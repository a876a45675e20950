// SPDX-License-Identifier: MIT
/* kernels/cuda/route.cu - which experts a token uses, and the tokens of each expert; the most
 * likely token of a row of logits.
 *
 * Ties go to the lower index everywhere, and the order inside an expert is token order: the same
 * choice and the same bits as runtime/engine/exec_moe.c up to the router's rounding. */
#include "kernels/cuda/last.cuh"

enum { BLOCK = 256, WARPS = BLOCK / 32, FEW_EXPERTS = 256 };

/* Chooses the experts of plain routers, a warp per token. */
template <int PER>
CU_KERNEL __launch_bounds__(BLOCK) choose_experts(struct cu_choice j, int64_t n_tok) {
    const int64_t t = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (t < n_tok) cu_choose<PER>(j, t); /* whole warps */
}

/* Other routers have a warp per token too; p and what experts are chosen by lie in shared
 * memory. */
enum { MAX_GROUPS = 256 };
CU_KERNEL __launch_bounds__(32) choose_any(struct cu_choice j) {
    CU_SHARED(float, p, [CU_MAX_EXPERTS]);
    CU_SHARED(float, by, [CU_MAX_EXPERTS]);
    CU_SHARED(float, best2, [MAX_GROUPS]);
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
        if (!(by[i] > -INFINITY)) by[i] = -3e38f; /* NaN: last, but there */
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
        for (int g = lane; g < groups; g += 32) { /* kept: fewer than `top` are better */
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
        for (int k = lane; k < n; k += 32) cu_better(&v, &i, by[k], k);
        cu_warp_best(&v, &i);
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
            w /= fmaxf(sum, CU_MIN_SUM);
        if (j.scale > 0) w *= j.scale;
        if (j.factor) w *= j.factor[j.expert[at]];
        j.weight[at] = w;
    }
}

int cu_route(struct cu_stream *s, const struct cu_choice *a, int64_t n_tok, struct err *e) {
    if (a->n_experts > CU_MAX_EXPERTS || a->n_used > a->n_experts || a->n_used < 1)
        return err_set(e, ERR_USAGE, "CUDA: %lld of %lld experts; at most %d are supported",
                       (long long)a->n_used, (long long)a->n_experts, CU_MAX_EXPERTS);
    const unsigned grid = (unsigned)div_up(n_tok, WARPS);
    if (n_tok < 1) return 0;
    if (a->groups > MAX_GROUPS || (a->groups > 0 && a->n_experts % a->groups))
        return err_set(e, ERR_USAGE, "CUDA: %lld groups of experts", (long long)a->groups);
    if (a->score || a->keep || a->scale > 0 || a->prefer || a->bias || a->groups > 0)
        CU_LAUNCH(e, choose_any, (unsigned)n_tok, 32, 0, s, *a);
    else if (a->n_experts <= FEW_EXPERTS)
        CU_LAUNCH(e, choose_experts<FEW_EXPERTS / 32>, grid, BLOCK, 0, s, *a, n_tok);
    else
        CU_LAUNCH(e, choose_experts<CU_MAX_EXPERTS / 32>, grid, BLOCK, 0, s, *a, n_tok);
    return 0;
}

/* ---- pairs sorted by expert ---- */

/* Counts the pairs of each expert e, in first[e + 1]. */
CU_KERNEL __launch_bounds__(BLOCK) count_pairs(const int32_t *expert, int64_t n, int32_t *first) {
    CU_SHARED(float, red, [32]);
    float mine = 0.0f; /* exact: fewer than 2^24 pairs */
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) mine += expert[i] == (int32_t)blockIdx.x;
    mine = cu_block_sum(mine, red);
    if (threadIdx.x == 0) first[blockIdx.x + 1] = (int32_t)mine;
}

/* Fills place[i] of the pairs of expert e, in order. The block sums the counts before its own. */
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
