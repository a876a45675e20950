// SPDX-License-Identifier: MIT
/* kernels/cuda/kv.cu - what comes before attention: rows into the cache, and in one launch with it
 * the norms and rotations of queries and keys. A warp per head of a token; rounding as in
 * runtime/kv_type.c. Not run on a GPU yet. */
#include "kernels/cuda/kv.cuh"

enum { BLOCK = 128, WARPS = BLOCK / 32, MAX_DIM = 512 };

struct append_job {
    struct kv_plane k, v;
    const float *new_k, *new_v;
    const int32_t *pos;
    int64_t n_ctx;
    int n_heads, blocks; /* of 32 values in a row, rounded up */
    int64_t n_tok;
};

/* One block of 32 values by a warp; the CPU's rounding (runtime/kv_type.c). */
CU_DEV void store_block(const struct kv_plane &p, int64_t row, int b, int lane, float x) {
    const int64_t at = row * p.dim + 32 * b + lane;
    if (p.form == KV_F32) {
        if (32 * b + lane < p.dim) ((float *)(void *)p.codes)[at] = x;
    } else if (p.form == KV_F16) {
        if (32 * b + lane < p.dim) ((uint16_t *)(void *)p.codes)[at] = cu_f32_to_f16(x);
    } else if (p.form == KV_Q8) {
        const float d = cu_warp_max(fabsf(x)) / 127.0f;
        const float inv = d >= 0x1p-126f ? 1.0f / d : 0.0f;
        ((int8_t *)p.codes)[at] = (int8_t)(int)rintf(x * inv);
        if (lane == 0) p.scales[at / 32] = cu_f32_to_f16(d);
    } else {
        /* d from the value of largest magnitude (the first of equals), which becomes exactly -8 */
        const float top = cu_warp_max(fabsf(x));
        const uint32_t who = cu_ballot(fabsf(x) == top);
        const float far = who ? cu_shfl(x, cu_ffs(who) - 1) : 0.0f;
        const uint16_t h = cu_f32_to_f16(far / -8.0f);
        const float d = cu_f16_to_f32(h), inv = d == 0.0f ? 0.0f : 1.0f / d;
        const float v = x * inv + 8.0f;
        const unsigned mine = v > 0.0f ? (unsigned)(v < 15.0f ? v + 0.5f : 15.0f) : 0u;
        const uint32_t next = cu_shfl((uint32_t)mine, (lane + 1) % 32);
        if (lane % 2 == 0) p.codes[at / 2] = (uint8_t)(mine | next << 4);
        if (lane == 0) p.scales[at / 32] = h;
    }
}

/* A warp per (token, kv head, block of 32, key or value). */
CU_KERNEL __launch_bounds__(BLOCK) append_rows(struct append_job j) {
    const int lane = (int)threadIdx.x % 32;
    const int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int64_t per_tok = 2 * (int64_t)j.n_heads * j.blocks;
    if (i >= j.n_tok * per_tok) return; /* whole warps leave */
    const int64_t t = i / per_tok;
    const int r = (int)(i % per_tok), is_v = r % 2, b = r / 2 % j.blocks, h = r / 2 / j.blocks;
    const struct kv_plane p = {is_v ? j.v.form : j.k.form, is_v ? j.v.codes : j.k.codes,
                               is_v ? j.v.scales : j.k.scales, j.k.dim};
    const float *src = (is_v ? j.new_v : j.new_k) + (t * j.n_heads + h) * p.dim;
    const float x = 32 * b + lane < p.dim ? src[32 * b + lane] : 0.0f;
    store_block(p, h * j.n_ctx + *j.pos + t, b, lane, x);
}

int cu_kv_append(struct cu_stream *s, const struct cu_attn *a, struct err *e) {
    struct append_job j;
    TRY(kv_open(&j.k, &a->k, a, e));
    TRY(kv_open(&j.v, &a->v, a, e));
    j.new_k = a->new_k;
    j.new_v = a->new_v;
    j.pos = a->pos;
    j.n_ctx = a->n_ctx;
    j.n_heads = (int)a->n_kv_heads;
    j.blocks = (int)div_up(a->head_dim, 32);
    j.n_tok = a->n_tok;
    const int64_t n = a->n_tok * 2 * a->n_kv_heads * j.blocks;
    if (n > 0) CU_LAUNCH(e, append_rows, (unsigned)div_up(n, WARPS), BLOCK, 0, s, j);
    return 0;
}

/* ---- queries, keys and values of a layer at once ---- */

struct qkv_job {
    struct kv_plane k, v;
    const float *q, *new_k, *new_v, *q_norm, *k_norm, *cs;
    float *q_out;
    const int32_t *pos;
    int64_t n_ctx, q_ld, n_tok;
    float eps;
    int n_heads, n_kv_heads, n_rot;
    bool normed, adjacent;
};

/* Rows of a head in the warp's shared memory: norm, then rotation. */
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
    if (i >= j.n_tok * per_tok) return; /* whole warps leave */
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
    const int64_t row = (vh < 0 ? kh : vh) * j.n_ctx + *j.pos + t;
    const struct kv_plane p = {vh < 0 ? j.k.form : j.v.form, vh < 0 ? j.k.codes : j.v.codes,
                               vh < 0 ? j.k.scales : j.v.scales, dim};
    for (int b = 0; 32 * b < dim; b++)
        store_block(p, row, b, lane, 32 * b + lane < dim ? x[32 * b + lane] : 0.0f);
}

int cu_qkv(struct cu_stream *s, const struct cu_attn *a, struct err *e) {
    struct qkv_job j;
    TRY(kv_open(&j.k, &a->k, a, e));
    TRY(kv_open(&j.v, &a->v, a, e));
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
    j.pos = a->pos;
    j.n_ctx = a->n_ctx;
    j.n_tok = a->n_tok;
    j.n_heads = (int)a->n_heads;
    j.n_kv_heads = (int)a->n_kv_heads;
    const int64_t n = a->n_tok * (a->n_heads + 2 * a->n_kv_heads);
    if (n > 0) CU_LAUNCH_EARLY(e, prepare_heads, (unsigned)div_up(n, WARPS), BLOCK, 0, s, j);
    return 0;
}
