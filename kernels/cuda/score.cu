// SPDX-License-Identifier: MIT
/* kernels/cuda/score.cu - evaluation scores of rows of logits, computed on the device: one block
 * per row makes three passes over it (maximum, sum of exponentials, divergence). Terms are f32 and
 * sums f64, as in eval_lse and kld_pos_row of runtime/; only the order of the sums differs. */
#include "kernels/cuda/gpu.cuh"

enum { THREADS = 512, WARPS = THREADS / 32 };

struct best { /* largest value so far, and its first position */
    float v;
    int i;
};
CU_DEV void take(struct best *b, float v, int i) {
    if (v > b->v || (v == b->v && i < b->i)) {
        b->v = v;
        b->i = i;
    }
}
CU_DEV struct best block_best(struct best b, struct best *red) {
    for (int m = 16; m > 0; m >>= 1) take(&b, cu_shfl_xor(b.v, m), cu_shfl_xor(b.i, m));
    if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = b;
    __syncthreads();
    b = red[0];
    for (int w = 1; w < WARPS; w++) take(&b, red[w].v, red[w].i);
    __syncthreads();
    return b;
}

struct dist { /* a row as probabilities */
    struct best top;
    double lse;
};
CU_DEV struct dist dist_of(const float *x, int n, struct best *red, double *sums) {
    struct dist d;
    d.top.v = -INFINITY;
    d.top.i = 0x7fffffff;
    for (int i = (int)threadIdx.x; i < n; i += THREADS) take(&d.top, x[i], i);
    d.top = block_best(d.top, red);
    double sum = 0;
    for (int i = (int)threadIdx.x; i < n; i += THREADS) sum += (double)expf(x[i] - d.top.v);
    d.lse = (double)d.top.v + log(cu_block_sum(sum, sums));
    if (d.top.i >= n) d.top.i = 0; /* all NaN */
    return d;
}

/* Scores rows of logits, a block per row. */
CU_KERNEL __launch_bounds__(THREADS) score_rows(CU_PARAM(struct cu_score) a) {
    CU_SHARED(struct best, red, [WARPS]);
    CU_SHARED(double, sums, [WARPS]);
    const int n = (int)a.n_vocab, target = a.target[blockIdx.x];
    const float *q = a.q + (int64_t)blockIdx.x * n;
    const struct dist dq = dist_of(q, n, red, sums);
    struct cu_score_row r = {dq.lse - (double)q[target], 0, 0, 0, dq.top.i, 0, 0};
    r.prob_q = expf(q[dq.top.i] - (float)dq.lse);
    if (a.p) {
        const float *p = a.p + (int64_t)blockIdx.x * n, shift = (float)dq.lse;
        const struct dist dp = dist_of(p, n, red, sums);
        const float lse = (float)dp.lse;
        double kld = 0;
        for (int i = (int)threadIdx.x; i < n; i += THREADS) {
            const float logp = p[i] - lse;
            if (logp > -16.0f) kld += (double)(expf(logp) * (logp - (q[i] - shift)));
        }
        r.kld = cu_block_sum(kld, sums);
        r.nll_p = -(double)(p[target] - lse);
        r.top_p = dp.top.i;
        r.prob_p = expf(p[dp.top.i] - lse);
    }
    if (threadIdx.x == 0) a.row[blockIdx.x] = r;
}

/* Computes losses, divergence and best tokens of n rows of logits. */
int cu_score_rows(struct cu_stream *s, const struct cu_score *a, struct err *e) {
    if (a->n < 1 || a->n_vocab < 1 || a->n_vocab > INT32_MAX)
        return err_set(e, ERR_USAGE, "CUDA: no rows of logits to score");
    CU_LAUNCH(e, score_rows, (unsigned)a->n, THREADS, 0, s, *a);
    return 0;
}
