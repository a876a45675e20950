// SPDX-License-Identifier: MIT
/* kernels/cuda/best.cu - the CU_BEST largest logits of a token, so that sampling needs a kilobyte
 * of a vocabulary's megabyte.
 *
 * The vocabulary is cut in 512 slices, a warp each. The 128th largest of the slices' largest logits
 * is a bound that at least 128 logits reach, and few more do: those are collected, and the last
 * block to finish sorts them by counting how many are better. The order of collecting does not
 * matter. */
#include "kernels/cuda/gpu.cuh"

enum { THREADS = 256, WARPS = THREADS / 32, BLOCKS = 64, SLICES = BLOCKS * WARPS, CAP = 1024 };

struct best_work {
    int n, arrived; /* 0 between calls */
    float top[SLICES];
    int id[CAP];
    float logit[CAP];
};
_Static_assert(sizeof(struct best_work) <= CU_BEST_WORK, "CU_BEST_WORK");

CU_DEV bool usable(float x) {
    return fabsf(x) <= FLT_MAX;
}
struct slice {
    int64_t lo, hi;
};
CU_DEV struct slice slice_of(int64_t n) {
    const int64_t per = (n + SLICES - 1) / SLICES;
    const int64_t lo = cu_min(n, per * (blockIdx.x * WARPS + threadIdx.x / 32));
    const struct slice s = {lo, cu_min(n, lo + per)};
    return s;
}

CU_KERNEL __launch_bounds__(THREADS) slice_tops(const float *x, int64_t n, struct best_work *w) {
    const struct slice s = slice_of(n);
    float top = -INFINITY;
    for (int64_t i = s.lo + threadIdx.x % 32; i < s.hi; i += 32)
        if (usable(x[i]) && x[i] > top) top = x[i];
    top = cu_warp_max(top);
    if (threadIdx.x % 32 == 0) w->top[blockIdx.x * WARPS + threadIdx.x / 32] = top;
}

/* The CU_BEST-th largest of the slices' largest. */
CU_DEV float bound(const float *top, float *found) {
    for (int i = (int)threadIdx.x; i < SLICES; i += THREADS) {
        int better = 0;
        for (int k = 0; k < SLICES; k++) better += top[k] > top[i] || (top[k] >= top[i] && k < i);
        if (better == CU_BEST - 1) *found = top[i];
    }
    __syncthreads();
    return *found;
}

/* By one block: what was collected, sorted. */
CU_DEV void sort_found(struct best_work *w, struct cu_best *out) {
    const int n = *(volatile int *)&w->n;
    volatile float *v = w->logit;
    volatile int *id = w->id;
    for (int i = (int)threadIdx.x; i < n && n <= CAP; i += THREADS) {
        int better = 0;
        for (int k = 0; k < n; k++) better += v[k] > v[i] || (v[k] >= v[i] && id[k] < id[i]);
        if (better >= CU_BEST) continue;
        out->id[better] = id[i];
        out->logit[better] = v[i];
    }
    __syncthreads();
    if (threadIdx.x) return;
    out->n = n > CAP ? -1 : n < CU_BEST ? n : CU_BEST;
    w->n = 0;
    w->arrived = 0;
}

CU_KERNEL __launch_bounds__(THREADS)
    collect(const float *x, int64_t n, struct best_work *w, struct cu_best *out) {
    CU_SHARED(float, top, [SLICES]);
    CU_SHARED(float, found, [1]);
    CU_SHARED(int, is_last, [1]);
    for (int i = (int)threadIdx.x; i < SLICES; i += THREADS) top[i] = w->top[i];
    __syncthreads();
    const float least = bound(top, found);
    const struct slice s = slice_of(n);
    for (int64_t i = s.lo + threadIdx.x % 32; i < s.hi; i += 32) {
        if (!usable(x[i]) || x[i] < least) continue;
        const int to = cu_atomic_add(&w->n, 1);
        if (to >= CAP) continue;
        w->id[to] = (int)i;
        w->logit[to] = x[i];
    }
    cu_fence();
    __syncthreads();
    if (threadIdx.x == 0) is_last[0] = cu_atomic_add(&w->arrived, 1) == BLOCKS - 1;
    __syncthreads();
    if (!is_last[0]) return;
    cu_fence();
    sort_found(w, out);
}

int cu_best_logits(struct cu_stream *s, const float *x, int64_t n, void *work, struct cu_best *out,
                   struct err *e) {
    struct best_work *w = (struct best_work *)work;
    if (n < 1 || n > INT32_MAX) return err_set(e, ERR_USAGE, "CUDA: no logits to choose from");
    CU_LAUNCH(e, slice_tops, BLOCKS, THREADS, 0, s, x, n, w);
    CU_LAUNCH(e, collect, BLOCKS, THREADS, 0, s, x, n, w, out);
    return 0;
}
