// SPDX-License-Identifier: MIT
/* kernels/cuda/latent.cu - latent attention: products in which every head has its own matrix,
 * and attention whose heads share one row per position, with the value being the last part of
 * the key. Plain code without tensor cores. */
#include "kernels/cuda/group.cuh"
#include "kernels/cuda/kv.cuh"

/* ---- products of heads ---- */

/* A block takes 128 rows of a head's matrix, a thread each, and TOKENS tokens. Reads the
 * matrices once per TOKENS tokens. */
enum { ROWS = 128, TOKENS = 4 };

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

int cu_matmul_heads(struct cu_stream *s, const struct cu_weight *w, const float *x, int64_t in,
                    int64_t n_tok, float *y, struct err *e) {
    heads_fn fn = NULL;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].type == w->type) fn = table[i].fn;
    const size_t smem = (size_t)(TOKENS * in) * sizeof(float);
    if (!fn || smem > (48 << 10))
        return err_set(e, ERR_USAGE, "CUDA: no products for heads of %lld values with %s",
                       (long long)in, qtype_name(w->type));
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
enum { HEADS = 8, KEYS = 16, BLOCK = 32 * HEADS, MOST = 512 };

struct latent_job {
    struct kv_plane k, v;
    const float *q;
    float *out;
    const struct cu_seg *seg;
    const int32_t *pos, *of; /* per row: position, segment */
    int slot, n_slots, n_heads;
    float scale;
};

CU_KERNEL __launch_bounds__(BLOCK) attend_latent(struct latent_job j) {
    CU_DYN_SHARED(float, mem); /* queries [HEADS][dim], then rows [KEYS][dim] */
    const int tid = (int)threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int dim = j.k.dim + j.v.dim, units = dim / 8, own = j.k.dim / 8;
    const int groups = (j.n_heads + HEADS - 1) / HEADS;
    const int64_t token = (int)blockIdx.x / groups;
    const int head = (int)blockIdx.x % groups * HEADS + warp;
    const bool live = head < j.n_heads;
    const struct kv_table table = kv_table_of(j.seg[j.of[token]], j.slot, j.n_slots);
    const int64_t last = (int64_t)j.pos[token] + 1;
    const int64_t at = token * j.n_heads + head;
    float *q = mem + warp * dim, *rows = mem + HEADS * dim;
    float acc[MOST / 32], top = -INFINITY, sum = 0.0f;
    for (int i = 0; i < MOST / 32; i++) acc[i] = 0.0f;
    for (int i = lane; i < dim; i += 32) q[i] = live ? j.scale * j.q[at * dim + i] : 0.0f;
    for (int64_t k0 = 0; k0 < last; k0 += KEYS) {
        const int n = last - k0 < KEYS ? (int)(last - k0) : KEYS;
        const struct kv_span span = kv_span_of(table, k0, n);
        __syncthreads();
        for (int i = tid; i < n * units; i += BLOCK) {
            const int key = i / units, u = i % units;
            const uint8_t *page = kv_page_of(span, key);
            float v[8];
            if (u < own)
                kv_load8<KV_ANY>(j.k, page, kv_row_of(span, 0, key), u, v);
            else
                kv_load8<KV_ANY>(j.v, page, kv_row_of(span, 0, key), u - own, v);
            for (int l = 0; l < 8; l++) rows[key * dim + 8 * u + l] = v[l];
        }
        __syncthreads();
        float x[KEYS], most = top;
        CU_UNROLL
        for (int key = 0; key < KEYS; key++) {
            float s = 0.0f;
            if (key < n)
                for (int i = lane; i < dim; i += 32) s = fmaf(q[i], rows[key * dim + i], s);
            s = cu_warp_sum(s);
            x[key] = key < n ? s : -INFINITY;
            most = fmaxf(most, x[key]);
        }
        const float less = expf(top - most);
        top = most;
        sum *= less;
        for (int i = 0; i < MOST / 32; i++) acc[i] *= less;
        CU_UNROLL
        for (int key = 0; key < KEYS; key++) {
            const float p = expf(x[key] - most);
            const float *row = rows + key * dim + j.k.dim;
            sum += p;
            for (int i = 0; i < MOST / 32 && key < n; i++)
                if (lane + 32 * i < j.v.dim) acc[i] = fmaf(p, row[lane + 32 * i], acc[i]);
        }
    }
    for (int i = 0; i < MOST / 32 && live; i++)
        if (lane + 32 * i < j.v.dim) j.out[at * j.v.dim + lane + 32 * i] = acc[i] / sum;
}

int cu_attn_latent(struct cu_stream *s, const struct cu_attn *a, struct err *e) {
    struct latent_job j = {};
    TRY(kv_open(&j.k, &j.v, a, e));
    j.q = a->q;
    j.out = a->out;
    j.seg = a->all_segs;
    j.pos = a->row_pos;
    j.of = a->row_seg;
    j.slot = a->slot;
    j.n_slots = a->n_slots;
    j.n_heads = (int)a->n_heads;
    j.scale = a->scale;
    const size_t smem = (size_t)((HEADS + KEYS) * a->head_dim) * sizeof(float);
    CU_SMEM(e, attend_latent, smem);
    const int64_t n = a->n_tok * div_up(a->n_heads, HEADS);
    if (n > 0) CU_LAUNCH(e, attend_latent, (unsigned)n, BLOCK, smem, s, j);
    return 0;
}
