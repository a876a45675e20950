// SPDX-License-Identifier: MIT
/* kernels/cuda/latent.cu - latent attention: products in which every head has its own matrix,
 * and attention whose heads share one row per position, in which the value is the last part of the
 * key. Plain code without tensor cores. */
#include "kernels/cuda/attn.cuh"
#include "kernels/cuda/group.cuh"

/* ---- products of heads ---- */

/* A block takes 128 rows of a head's matrix, a thread each, and TOKENS tokens. Reads the
 * matrices once per TOKENS tokens. */
enum { ROWS = 128, TOKENS = 4 };
static_assert(TOKENS * CU_MOST_HEAD_MATRIX * sizeof(float) <= 48 << 10, "fits without CU_SMEM");

struct heads_job {
    const uint8_t *mat;
    const struct kern_grid *grid;
    uint64_t row_bytes, mat_bytes;
    const float *x; /* [n_tok][heads][in] */
    float *y;       /* [n_tok][heads][in - k + rows] */
    int64_t n_tok, k, rows, in;
};

template <class B> struct is_float { static constexpr bool YES = false; };
#define IS_FLOAT(T)                                                                                \
    template <> struct is_float<struct blk_##T> { static constexpr bool YES = true; };
CU_FLOAT_TYPES(IS_FLOAT)
#undef IS_FLOAT

/* Loads weights [32 i, 32 i + n) of a row. */
template <class B>
CU_DEV void load_32(const uint8_t *row, int64_t i, int n, const struct kern_grid *g, float w[32]) {
    if constexpr (is_float<B>::YES) {
        (void)g;
        CU_UNROLL
        for (int l = 0; l < 32; l++)
            w[l] = l < n ? cu_float((const B *)(const void *)row, 32 * i + l) : 0.0f;
    } else {
        struct cu_group o;
        (void)n;
        cu_row_group<B>(row, i, g, &o);
        CU_UNROLL
        for (int l = 0; l < 32; l++) w[l] = cu_weight(&o, l);
    }
}

template <class B> CU_KERNEL __launch_bounds__(ROWS) head_products(struct heads_job j) {
    CU_DYN_SHARED(float, x); /* [TOKENS][in] */
    const int tid = (int)threadIdx.x, heads = (int)gridDim.y, h = (int)blockIdx.y;
    const int64_t r = (int64_t)blockIdx.x * ROWS + tid, tail = j.in - j.k;
    const int64_t t0 = (int64_t)blockIdx.z * TOKENS, width = tail + j.rows;
    const int n = j.n_tok - t0 < TOKENS ? (int)(j.n_tok - t0) : TOKENS;
    for (int64_t i = tid; i < n * j.in; i += ROWS) {
        const int64_t t = t0 + i / j.in, c = i % j.in;
        x[i] = j.x[(t * heads + h) * j.in + c];
        if (blockIdx.x == 0 && c >= j.k) j.y[(t * heads + h) * width + c - j.k] = x[i];
    }
    __syncthreads();
    if (r >= j.rows) return;
    const uint8_t *row = j.mat + (uint64_t)h * j.mat_bytes + (uint64_t)r * j.row_bytes;
    float sum[TOKENS] = {};
    for (int64_t g = 0; 32 * g < j.k; g++) {
        const int m = is_float<B>::YES && j.k - 32 * g < 32 ? (int)(j.k - 32 * g) : 32;
        float w[32];
        load_32<B>(row, g, m, j.grid, w);
        CU_UNROLL
        for (int l = 0; l < 32; l++) {
            if (l >= m) continue;
            CU_UNROLL
            for (int t = 0; t < TOKENS; t++)
                if (t < n) sum[t] = fmaf(w[l], x[t * j.in + 32 * g + l], sum[t]);
        }
    }
    CU_UNROLL
    for (int t = 0; t < TOKENS; t++)
        if (t < n) j.y[((t0 + t) * heads + h) * width + tail + r] = sum[t];
}

typedef void (*heads_fn)(struct heads_job);
static const struct {
    enum qtype type;
    heads_fn fn;
} table[] = {
#define ROW(T) {QT_##T, head_products<struct blk_##T>},
    CU_GROUP_TYPES(ROW) CU_FLOAT_TYPES(ROW)
#undef ROW
};

/* Multiplies each head's `in` values by its own matrix. */
int cu_matmul_heads(struct cu_stream *s, const struct cu_weight *w, const float *x, int64_t in,
                    int64_t n_tok, float *y, struct err *e) {
    heads_fn fn = NULL;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].type == w->type) fn = table[i].fn;
    const size_t smem = (size_t)(TOKENS * in) * sizeof(float);
    TRY(cu_check(CU_HEAD_MATRIX, in, e));
    if (!fn)
        return err_set(e, ERR_USAGE, "CUDA: no products of heads with weights of type %s",
                       qtype_name(w->type));
    const struct heads_job j = {(const uint8_t *)w->data,
                                s->c->grid,
                                w->row_bytes,
                                w->mat_bytes,
                                x,
                                y,
                                n_tok,
                                w->k,
                                w->rows,
                                in};
    const dim3 grid((unsigned)div_up(w->rows, ROWS), (unsigned)w->mats,
                    (unsigned)div_up(n_tok, TOKENS));
    if (n_tok > 0) CU_LAUNCH(e, fn, grid, ROWS, smem, s, j);
    return 0;
}

/* ---- attention ---- */

/* A block takes HEADS query heads of one token, a warp each, and walks the keys in chunks of
 * KEYS, decoded once for all of them. A lane adds values lane, lane + 32, ... of the output.
 * Reads every row once per HEADS heads. */
enum { HEADS = 8, KEYS = 16, BLOCK = 32 * HEADS, MOST = CU_MOST_HEAD };

CU_KERNEL __launch_bounds__(BLOCK) attend_latent(struct attn_job j) {
    CU_DYN_SHARED(float, mem); /* queries [HEADS][dim], then rows [KEYS][dim] */
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int dim = j.k.dim + j.v.dim;
    const int groups = (j.n_heads + HEADS - 1) / HEADS;
    const int64_t token = (int)blockIdx.x / groups;
    const int head = (int)blockIdx.x % groups * HEADS + warp;
    const bool live = head < j.n_heads;
    const struct kv_table table = kv_table_of(j.all[j.of[token]], j.slot, j.n_slots);
    const int64_t last = (int64_t)j.pos[token] + 1;
    const int64_t at = token * j.n_heads + head;
    float *q = mem + warp * dim, *rows = mem + HEADS * dim;
    float acc[MOST / 32];
    struct softmax st = softmax_empty();
    for (int i = 0; i < MOST / 32; i++) acc[i] = 0.0f;
    for (int i = lane; i < dim; i += 32) q[i] = live ? j.scale * j.q[at * dim + i] : 0.0f;
    for (int64_t k0 = 0; k0 < last; k0 += KEYS) {
        const int n = last - k0 < KEYS ? (int)(last - k0) : KEYS;
        const struct kv_span span = kv_span_of(table, k0, n);
        __syncthreads();
        attn_load<KEYS, BLOCK>(j.k, span, 0, n, dim, rows);
        attn_load<KEYS, BLOCK>(j.v, span, 0, n, dim, rows + j.k.dim);
        __syncthreads();
        float x[KEYS], most = -INFINITY;
        CU_UNROLL
        for (int key = 0; key < KEYS; key++) {
            float s = 0.0f;
            if (key < n)
                for (int i = lane; i < dim; i += 32) s = fmaf(q[i], rows[key * dim + i], s);
            s = cu_warp_sum(s);
            x[key] = key < n ? s : -INFINITY;
            most = fmaxf(most, x[key]);
        }
        const float fix = softmax_raise(&st, most);
        for (int i = 0; i < MOST / 32; i++) acc[i] *= fix;
        CU_UNROLL
        for (int key = 0; key < KEYS; key++) {
            const float p = expf(x[key] - st.top);
            const float *row = rows + key * dim + j.k.dim;
            st.sum += p;
            for (int i = 0; i < MOST / 32 && key < n; i++)
                if (lane + 32 * i < j.v.dim) acc[i] = fmaf(p, row[lane + 32 * i], acc[i]);
        }
    }
    for (int i = 0; i < MOST / 32 && live; i++)
        if (lane + 32 * i < j.v.dim) attn_store(j, at, j.v.dim, lane + 32 * i, acc[i] / st.sum);
}

/* Computes latent attention, whose keys contain the values. */
int cu_attn_latent(struct cu_stream *s, const struct cu_attn *a, struct err *e) {
    struct attn_job j;
    TRY(attn_open(&j, a, e));
    const size_t smem = (size_t)((HEADS + KEYS) * a->head_dim) * sizeof(float);
    CU_SMEM(e, attend_latent, smem);
    const int64_t n = a->n_tok * div_up(a->n_heads, HEADS);
    if (n > 0) CU_LAUNCH(e, attend_latent, (unsigned)n, BLOCK, smem, s, j);
    return 0;
}
