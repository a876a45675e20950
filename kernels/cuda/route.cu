// SPDX-License-Identifier: MIT
/* kernels/cuda/route.cu - which experts a token uses, and the tokens of each expert; the most
 * likely token of a row of logits.
 *
 * Ties go to the lower index everywhere, and the order inside an expert is token order: the same
 * choice and the same bits as runtime/exec_moe.c up to the router's rounding. */
#include "kernels/cuda/last.cuh"

enum { BLOCK = 256, WARPS = BLOCK / 32 };

/* A warp per token. */
template <int PER>
CU_KERNEL __launch_bounds__(BLOCK) choose_experts(struct cu_choice j, int64_t n_tok) {
    const int64_t t = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (t < n_tok) cu_choose<PER>(j, t); /* whole warps */
}

int cu_route(struct cu_stream *s, const struct cu_choice *a, int64_t n_tok, struct err *e) {
    if (a->n_experts > CU_MAX_EXPERTS || a->n_used > a->n_experts || a->n_used < 1)
        return err_set(e, ERR_USAGE, "CUDA: %lld of %lld experts; at most %d are supported",
                       (long long)a->n_used, (long long)a->n_experts, CU_MAX_EXPERTS);
    const unsigned grid = (unsigned)div_up(n_tok, WARPS);
    if (n_tok < 1) return 0;
    if (a->n_experts <= CU_CHOICE_EXPERTS)
        CU_LAUNCH(e, choose_experts<CU_CHOICE_EXPERTS / 32>, grid, BLOCK, 0, s, *a, n_tok);
    else
        CU_LAUNCH(e, choose_experts<CU_MAX_EXPERTS / 32>, grid, BLOCK, 0, s, *a, n_tok);
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
