// SPDX-License-Identifier: MIT
/* kernels/cuda/kv.cu - append of rows to the KV cache, alone or fused with the norms and rotations
 * of queries and keys. One warp handles a head of a token; rounding as in
 * runtime/engine/kv_type.c. */
#include "kernels/cuda/kv.cuh"

enum { BLOCK = 128, WARPS = BLOCK / 32, MAX_DIM = CU_MOST_HEAD };

struct rows_at { /* the rows of a pass */
    const struct cu_seg *seg;
    const int32_t *pos, *seg_of;
    int64_t n_tok;
    int slot, n_slots;
};
/* Returns each row's sequence, position and slot. */
static struct rows_at rows_at(const struct cu_attn *a) {
    const struct rows_at r = {a->all_segs, a->row_pos, a->row_seg, a->n_tok, a->slot, a->n_slots};
    return r;
}
/* Returns the page for the key of row t. */
CU_DEV uint8_t *page_of(const struct rows_at &r, int64_t t) {
    return kv_page(kv_table_of(r.seg[r.seg_of[t]], r.slot, r.n_slots), r.pos[t]);
}

struct append_job {
    struct kv_plane k, v;
    const float *new_k, *new_v;
    struct rows_at rows;
    int n_heads, blocks; /* blocks of 32 values per row, rounded up */
};

/* Stores one block of 32 values in a row of a page, rounded as on the CPU
 * (runtime/engine/kv_type.c); a warp calls it. */
CU_DEV void store_block(const struct kv_plane &p, uint8_t *page, int row, int b, int lane,
                        float x) {
    const int at = row * p.dim + 32 * b + lane;
    uint8_t *codes = page + p.codes;
    uint16_t *scales = (uint16_t *)(void *)(page + p.scales);
    if (p.form == KV_F32) {
        if (32 * b + lane < p.dim) ((float *)(void *)codes)[at] = x;
    } else if (p.form == KV_F16) {
        if (32 * b + lane < p.dim) ((uint16_t *)(void *)codes)[at] = cu_f32_to_f16(x);
    } else if (p.form == KV_Q8) {
        const float top = cu_warp_max(fabsf(x)), d = top / 127.0f;
        const float inv = d >= 0x1p-126f ? 127.0f / top : 0.0f; /* as kernels/ref/act.c */
        ((int8_t *)codes)[at] = (int8_t)cu_round(x * inv);
        if (lane == 0) scales[at / 32] = cu_f32_to_f16(d);
    } else {
        /* d comes from the value of largest magnitude (the first in a tie), which becomes exactly
         * -8. */
        const float top = cu_warp_max(fabsf(x));
        const uint32_t who = cu_ballot(fabsf(x) == top);
        const float far = who ? cu_shfl(x, cu_ffs(who) - 1) : 0.0f;
        const uint16_t h = cu_f32_to_f16(far / -8.0f);
        const float d = cu_f16_to_f32(h), inv = d == 0.0f ? 0.0f : 1.0f / d;
        const float v = x * inv + 8.0f;
        const unsigned mine = v > 0.0f ? (unsigned)(v < 15.0f ? v + 0.5f : 15.0f) : 0u;
        const uint32_t next = cu_shfl((uint32_t)mine, (lane + 1) % 32);
        if (lane % 2 == 0) codes[at / 2] = (uint8_t)(mine | next << 4);
        if (lane == 0) scales[at / 32] = h;
    }
}

/* Appends rows to the cache, a warp per (token, kv head, block of 32, key or value). */
CU_KERNEL __launch_bounds__(BLOCK) append_rows(struct append_job j) {
    const int lane = (int)threadIdx.x % 32;
    const int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int64_t per_tok = 2 * (int64_t)j.n_heads * j.blocks;
    if (i >= j.rows.n_tok * per_tok) return; /* whole warps exit */
    const int64_t t = i / per_tok;
    const int r = (int)(i % per_tok), is_v = r % 2, b = r / 2 % j.blocks, h = r / 2 / j.blocks;
    const struct kv_plane p = is_v ? j.v : j.k;
    if (32 * b >= p.dim) return;
    const float *src = (is_v ? j.new_v : j.new_k) + (t * j.n_heads + h) * p.dim;
    const float x = 32 * b + lane < p.dim ? src[32 * b + lane] : 0.0f;
    store_block(p, page_of(j.rows, t), h * CU_PAGE + j.rows.pos[t] % CU_PAGE, b, lane, x);
}

/* Stores the new keys and values of all rows in the cache. */
int cu_kv_append(struct cu_stream *s, const struct cu_attn *a, struct err *e) {
    struct append_job j;
    TRY(kv_open(&j.k, &j.v, a, e));
    j.new_k = a->new_k;
    j.new_v = a->new_v;
    j.rows = rows_at(a);
    j.n_heads = (int)a->n_kv_heads;
    j.blocks = (int)div_up(max_i64(j.k.dim, j.v.dim), 32);
    const int64_t n = a->n_tok * 2 * a->n_kv_heads * j.blocks;
    if (n > 0) CU_LAUNCH(e, append_rows, (unsigned)div_up(n, WARPS), BLOCK, 0, s, j);
    return 0;
}

/* ---- queries, keys and values of a layer at once ---- */

struct qkv_job {
    struct kv_plane k, v;
    const float *q, *new_k, *new_v, *q_norm, *k_norm, *cs;
    float *q_out;
    struct rows_at rows;
    int64_t q_ld;
    float eps;
    int n_heads, n_kv_heads, n_rot;
    bool normed, adjacent;
};

/* Normalises and rotates a head's row in the warp's shared memory. */
CU_DEV void norm_rope(float *x, int dim, int lane, const float *w, float eps, bool normed,
                      const float *cs, int n_rot, bool adjacent) {
    if (normed) {
        float s = 0.0f;
        for (int i = lane; i < dim; i += 32) s = fmaf(x[i], x[i], s);
        const float r = 1.0f / sqrtf(cu_warp_sum(s) / (float)dim + eps);
        for (int i = lane; i < dim; i += 32) x[i] = w ? x[i] * r * w[i] : x[i] * r;
        cu_syncwarp();
    }
    const int half = n_rot / 2;
    for (int i = lane; i < half; i += 32) {
        float *p = x + (adjacent ? 2 * i : i), *q = p + (adjacent ? 1 : half);
        const float a = *p, b = *q, c = cs[2 * i], d = cs[2 * i + 1];
        *p = a * c - b * d;
        *q = a * d + b * c;
    }
    cu_syncwarp();
}

CU_KERNEL __launch_bounds__(BLOCK) prepare_heads(struct qkv_job j) {
    CU_SHARED(float, rows, [WARPS][MAX_DIM]);
    cu_wait_before();
    const int lane = (int)threadIdx.x % 32, dim = j.k.dim;
    const int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int per_tok = j.n_heads + 2 * j.n_kv_heads;
    if (i >= j.rows.n_tok * per_tok) return; /* whole warps exit */
    const int64_t t = i / per_tok;
    const int h = (int)(i % per_tok), kh = h - j.n_heads, vh = kh - j.n_kv_heads;
    float *x = rows[threadIdx.x / 32];
    const float *cs = j.cs + t * j.n_rot;
    const float *src = kh < 0   ? j.q + (t * j.n_heads + h) * j.q_ld
                       : vh < 0 ? j.new_k + (t * j.n_kv_heads + kh) * dim
                                : j.new_v + (t * j.n_kv_heads + vh) * dim;
    for (int c = lane; c < dim; c += 32) x[c] = src[c];
    cu_syncwarp();
    if (vh < 0)
        norm_rope(x, dim, lane, kh < 0 ? j.q_norm : j.k_norm, j.eps, j.normed, cs, j.n_rot,
                  j.adjacent);
    if (kh < 0) {
        for (int c = lane; c < dim; c += 32) j.q_out[(t * j.n_heads + h) * dim + c] = x[c];
        return;
    }
    const int row = (vh < 0 ? kh : vh) * CU_PAGE + j.rows.pos[t] % CU_PAGE;
    const struct kv_plane p = vh < 0 ? j.k : j.v;
    uint8_t *page = page_of(j.rows, t);
    for (int b = 0; 32 * b < dim; b++)
        store_block(p, page, row, b, lane, 32 * b + lane < dim ? x[32 * b + lane] : 0.0f);
}

/* Normalizes and rotates queries and keys, and stores keys and values in the cache. */
int cu_qkv(struct cu_stream *s, const struct cu_attn *a, struct err *e) {
    struct qkv_job j;
    TRY(kv_open(&j.k, &j.v, a, e));
    j.q = a->raw_q;
    j.q_ld = a->raw_q_ld;
    j.q_out = a->q_out;
    j.new_k = a->new_k;
    j.new_v = a->new_v;
    j.q_norm = a->q_norm;
    j.k_norm = a->k_norm;
    j.normed = a->normed;
    j.eps = a->eps;
    j.cs = a->cs;
    j.n_rot = (int)a->n_rot;
    j.adjacent = a->adjacent;
    j.rows = rows_at(a);
    j.n_heads = (int)a->n_heads;
    j.n_kv_heads = (int)a->n_kv_heads;
    const int64_t n = a->n_tok * (a->n_heads + 2 * a->n_kv_heads);
    if (n > 0) CU_LAUNCH_EARLY(e, prepare_heads, (unsigned)div_up(n, WARPS), BLOCK, 0, s, j);
    return 0;
}
