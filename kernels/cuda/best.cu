// SPDX-License-Identifier: MIT
/* kernels/cuda/best.cu - the CU_BEST largest logits of each token, so that sampling downloads a
 * kilobyte instead of a vocabulary's megabyte.
 *
 * The vocabulary is cut into 512 slices, one per warp. The last block to finish computes a
 * threshold, the 128th largest of the slices' maxima: at least 128 logits reach it, but few more.
 * The logits that reach it are collected. Again the last block sorts them, by counting how many are
 * better, so the order of collection does not matter. Tokens are rows of blocks, each with its own
 * work memory. */
#include "kernels/cuda/last.cuh"

enum { THREADS = 256, WARPS = THREADS / 32, BLOCKS = 64, SLICES = BLOCKS * WARPS, CAP = 1024 };

struct best_work {
    int n, arrived, broken; /* 0 between calls; broken: not 0 if a logit is invalid */
    float least;            /* threshold */
    float top[SLICES];
    int id[CAP];
    float logit[CAP];
};
_Static_assert(sizeof(struct best_work) <= CU_BEST_WORK, "CU_BEST_WORK");

CU_DEV struct best_work *work_of(void *work) {
    return (struct best_work *)((char *)work + (size_t)blockIdx.y * CU_BEST_WORK);
}
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

/* Finds the CU_BEST-th largest of the slices' maxima; one block calls it. */
CU_DEV void find_bound(struct best_work *w, float *top) {
    for (int i = (int)threadIdx.x; i < SLICES; i += THREADS) top[i] = cu_ldcg(&w->top[i]);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < SLICES; i += THREADS) {
        int by[4] = {0, 0, 0, 0}; /* four independent sums */
        for (int k = 0; k < SLICES; k += 4) CU_UNROLL
        for (int c = 0; c < 4; c++)
            by[c] += top[k + c] > top[i] || (top[k + c] >= top[i] && k + c < i);
        const int better = by[0] + by[1] + by[2] + by[3];
        if (better == CU_BEST - 1) w->least = top[i];
    }
}

CU_KERNEL __launch_bounds__(THREADS) slice_tops(const float *x, int64_t n, void *work) {
    CU_SHARED(float, tops, [SLICES]);
    CU_SHARED(int, is_last, [1]);
    struct best_work *w = work_of(work);
    const struct slice s = slice_of(n);
    float top = -INFINITY;
    bool broken = false;
    x += (int64_t)blockIdx.y * n;
    for (int64_t i = s.lo + threadIdx.x % 32; i < s.hi; i += 32) {
        if (usable(x[i]) && x[i] > top) top = x[i];
        broken = broken || !(x[i] <= FLT_MAX);
    }
    if (broken) cu_atomic_add(&w->broken, 1);
    top = cu_warp_max(top);
    if (threadIdx.x % 32 == 0) w->top[blockIdx.x * WARPS + threadIdx.x / 32] = top;
    if (cu_is_last(&w->arrived, BLOCKS, is_last)) find_bound(w, tops);
}

struct found {
    float logit[CAP];
    int id[CAP];
};
/* Sorts the collected logits; one block calls it. */
CU_DEV void sort_found(struct best_work *w, struct found *f, struct cu_best *out) {
    const int n = cu_ldcg(&w->n);
    for (int i = (int)threadIdx.x; i < n && n <= CAP; i += THREADS) {
        f->logit[i] = cu_ldcg(&w->logit[i]);
        f->id[i] = cu_ldcg(&w->id[i]);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < n && n <= CAP; i += THREADS) {
        const float v = f->logit[i];
        const int id = f->id[i];
        int better = 0;
        for (int k = 0; k < n; k++)
            better += f->logit[k] > v || (f->logit[k] >= v && f->id[k] < id);
        if (better >= CU_BEST) continue;
        out->id[better] = id;
        out->logit[better] = v;
    }
    __syncthreads();
    if (threadIdx.x) return;
    out->n = n > CAP ? -1 : n < CU_BEST ? n : CU_BEST;
    out->broken = cu_ldcg(&w->broken) != 0;
    w->n = w->broken = 0;
}

CU_KERNEL __launch_bounds__(THREADS)
    collect(const float *x, int64_t n, void *work, struct cu_best *out) {
    CU_SHARED(struct found, all, [1]);
    CU_SHARED(int, is_last, [1]);
    struct best_work *w = work_of(work);
    const float least = w->least;
    const struct slice s = slice_of(n);
    x += (int64_t)blockIdx.y * n;
    for (int64_t i = s.lo + threadIdx.x % 32; i < s.hi; i += 32) {
        if (!usable(x[i]) || x[i] < least) continue;
        const int to = cu_atomic_add(&w->n, 1);
        if (to >= CAP) continue;
        w->id[to] = (int)i;
        w->logit[to] = x[i];
    }
    if (cu_is_last(&w->arrived, BLOCKS, is_last)) sort_found(w, all, out + blockIdx.y);
}

/* Finds the best logits of each row on the device; work: CU_BEST_WORK bytes per row. */
int cu_best_logits(struct cu_stream *s, const float *x, int64_t n, int64_t n_rows, void *work,
                   struct cu_best *out, struct err *e) {
    if (n < 1 || n > INT32_MAX || n_rows < 1 || n_rows > INT16_MAX)
        return err_set(e, ERR_USAGE, "CUDA: no logits to choose from");
    const dim3 grid(BLOCKS, (unsigned)n_rows);
    CU_LAUNCH(e, slice_tops, grid, THREADS, 0, s, x, n, work);
    CU_LAUNCH(e, collect, grid, THREADS, 0, s, x, n, work, out);
    return 0;
}
