// SPDX-License-Identifier: MIT
/* kernels/cuda/attn_any.cu - causal attention with features that the fast kernels (attn.cu) lack: a
 * soft cap of scores, and sinks. Plain code without tensor cores, for a few models.
 *
 * A block takes one query head of one token, and walks the keys in chunks of BLOCK with a running
 * maximum and sum. For scores a thread handles one key; for values it handles 8 values of a slice
 * of the keys. Slices are added in order. Reads every key and value once for each query head. */
#include "kernels/cuda/attn.cuh"

enum { BLOCK = 256 }; /* at most CU_PAGE */

CU_KERNEL __launch_bounds__(BLOCK) attend_any(struct attn_job j) {
    CU_SHARED(float, red, [32]);
    CU_SHARED(float, p, [BLOCK]);
    CU_DYN_SHARED(float, mem); /* queries [dim], then sums of slices [slices][dim] */
    const int dim = j.k.dim, units = dim / 8, tid = (int)threadIdx.x;
    const int slices = BLOCK / units, unit = tid % units, slice = tid / units;
    const int64_t row = blockIdx.x, token = row / j.n_heads;
    const int head = (int)(row % j.n_heads), kv_head = head / j.group;
    const struct kv_table table = kv_table_of(j.all[j.of[token]], j.slot, j.n_slots);
    const int64_t last = (int64_t)j.pos[token] + 1;
    const int64_t first = j.chunked ? (last - 1) / j.window * j.window : attn_first(j, last);
    struct softmax st = softmax_empty();
    float *sums = mem + dim, acc[8];
    for (int i = tid; i < dim; i += BLOCK) mem[i] = j.scale * j.q[row * dim + i];
    for (int i = 0; i < 8; i++) acc[i] = 0;
    __syncthreads();
    for (int64_t k0 = first; k0 < last; k0 += BLOCK) {
        const int n = last - k0 < BLOCK ? (int)(last - k0) : BLOCK;
        const struct kv_span span = kv_span_of(table, k0, n);
        float x = -INFINITY;
        if (tid < n) {
            x = 0;
            for (int u = 0; u < units; u++) {
                float v[8];
                kv_load8<KV_ANY>(j.k, kv_page_of(span, tid), kv_row_of(span, kv_head, tid), u, v);
                for (int i = 0; i < 8; i++) x = fmaf(mem[8 * u + i], v[i], x);
            }
            if (j.softcap > 0) x = j.softcap * tanhf(x / j.softcap);
        }
        const float fix = softmax_raise(&st, cu_block_max(x, red));
        p[tid] = tid < n ? expf(x - st.top) : 0.0f;
        st.sum += cu_block_sum(p[tid], red); /* its barrier makes p visible to all */
        for (int i = 0; i < 8; i++) acc[i] *= fix;
        for (int k = slice; slice < slices && k < n; k += slices) {
            float v[8];
            kv_load8<KV_ANY>(j.v, kv_page_of(span, k), kv_row_of(span, kv_head, k), unit, v);
            for (int i = 0; i < 8; i++) acc[i] = fmaf(p[k], v[i], acc[i]);
        }
        __syncthreads();
    }
    if (slice < slices)
        for (int i = 0; i < 8; i++) sums[slice * dim + 8 * unit + i] = acc[i];
    __syncthreads();
    if (j.sink) st.sum += expf(j.sink[head] - st.top);
    for (int i = tid; i < dim; i += BLOCK) {
        float o = 0;
        for (int k = 0; k < slices; k++) o += sums[k * dim + i];
        attn_store(j, row, dim, i, o / st.sum);
    }
}

/* Computes attention with the general kernel, which supports every option but is slower. */
int cu_attn_any(struct cu_stream *s, const struct cu_attn *a, struct err *e) {
    struct attn_job j;
    TRY(attn_open(&j, a, e));
    const int64_t units = a->head_dim / 8, slices = BLOCK / units;
    const size_t smem = (size_t)(a->head_dim * (1 + slices)) * sizeof(float);
    if (a->n_tok > 0)
        CU_LAUNCH(e, attend_any, (unsigned)(a->n_tok * a->n_heads), BLOCK, smem, s, j);
    return 0;
}
