// SPDX-License-Identifier: MIT
/* kernels/cuda/attn.cuh - code shared by the six attention kernels: the job, the keys visible to a
 * row, the running softmax, tiles of keys and values as floats, and the gated output.
 *
 *   kernel         file         rows of a block          keys
 *   attend_part    cores.cuh    a token, up to 8 heads   a part (split.cuh), CUDA cores
 *   attend_few     few.cuh      8 of up to CU_FEW tokens a part (split.cuh), tensor cores
 *   attend_tile    cores.cuh    32 or 16                 tiles of all, CUDA cores
 *   attend_flash   flash.cuh    64                       tiles of all, tensor cores
 *   attend_any     attn_any.cu  1                        chunks of all; soft cap, sinks, chunked
 *   attend_latent  latent.cu    a token, 8 heads         tiles of all; values are part of the keys
 *
 * A row is a (token, query head) pair. Each kernel has its own products and its own assignment of
 * scores to threads, because its speed depends on them. */
#ifndef HONE_KERNELS_CUDA_ATTN_CUH
#define HONE_KERNELS_CUDA_ATTN_CUH

#include "kernels/cuda/kv.cuh"
#include "kernels/cuda/last.cuh"

struct attn_job {
    struct kv_plane k, v;
    const float *q, *gate, *sink; /* q, out: row t * n_heads + h for token t of the pass, head h */
    float *out;
    const struct cu_seg *seg, *all; /* segments of the launch; all segments of the pass */
    /* Per token of the pass: its position, and the index of its segment in `all`. */
    const int32_t *pos, *of;
    int64_t window, gate_ld;
    float scale, softcap;
    bool chunked;
    int n_segs, slot, n_slots, n_heads, n_kv, group; /* group: query heads per kv head */
    /* For kernels that split the keys into parts (split.cuh). */
    int longest, n_splits;
    float *part;
    uint8_t *out_q;
};
/* Fills the kernel arguments from a. Fails for cache types without a kernel. */
static int attn_open(struct attn_job *j, const struct cu_attn *a, struct err *e) {
    *j = {};
    TRY(kv_open(&j->k, &j->v, a, e));
    j->q = a->q;
    j->gate = a->gate;
    j->gate_ld = a->gate_ld ? a->gate_ld : a->head_dim;
    j->sink = a->sink;
    j->out = a->out;
    j->seg = a->rows.seg;
    j->n_segs = (int)a->rows.n_segs;
    j->longest = (int)a->rows.longest;
    j->all = a->all_segs;
    j->pos = a->row_pos;
    j->of = a->row_seg;
    j->window = a->window;
    j->chunked = a->chunked;
    j->scale = a->scale;
    j->softcap = a->softcap;
    j->slot = a->slot;
    j->n_slots = a->n_slots;
    j->n_heads = (int)a->n_heads;
    j->n_kv = (int)a->n_kv_heads;
    j->group = (int)(a->n_heads / a->n_kv_heads);
    j->n_splits = (int)a->n_splits;
    j->part = a->part;
    j->out_q = (uint8_t *)a->out_q;
    return 0;
}

/* ---- rows and the keys they see ---- */

/* Returns the first key visible to the token whose visible keys end at `end`. */
CU_DEV int64_t attn_first(const struct attn_job &j, int64_t end) {
    return j.window > 0 && end > j.window ? end - j.window : 0;
}

/* The rows of a block of attend_tile and attend_flash: [r0, r0 + n) of a segment and kv head, where
 * row r is query head r % group of token r / group. They see keys in [begin, end); the keys of the
 * first row end at `seen`. */
struct attn_rows {
    struct cu_seg seg;
    struct kv_table table;
    int head, r0, n;
    int64_t seen, begin, end;
};
/* Returns the block's rows; n <= 0: the segment has none left for it. Later rows see more keys, so
 * they are started first. */
CU_DEV struct attn_rows attn_rows_of(const struct attn_job &j, int most) {
    struct attn_rows r;
    r.seg = j.seg[blockIdx.z];
    r.table = kv_table_of(r.seg, j.slot, j.n_slots);
    r.head = (int)blockIdx.y;
    r.r0 = ((int)gridDim.x - 1 - (int)blockIdx.x) * most;
    r.n = (int)cu_min(r.seg.n * j.group - r.r0, most);
    r.seen = (int64_t)r.seg.pos + r.r0 / j.group + 1;
    r.end = (int64_t)r.seg.pos + (r.r0 + r.n - 1) / j.group + 1;
    r.begin = attn_first(j, r.seen);
    return r;
}
/* Returns the end of the keys that row i of the block sees, relative to the start of the
 * sequence. */
CU_DEV int64_t attn_seen(const struct attn_job &j, const struct attn_rows &r, int i) {
    return (int64_t)r.seg.pos + (r.r0 + i) / j.group + 1;
}
/* Keys [from, to), relative to k0, of the tile at k0 that are visible to a row whose keys end at
 * `seen`. */
struct attn_span {
    int from, to;
};
CU_DEV struct attn_span attn_span_of(const struct attn_job &j, int64_t seen, int64_t k0) {
    const struct attn_span s = {(int)(attn_first(j, seen) - k0), (int)(seen - k0)};
    return s;
}
/* Returns the row of q and out for row i of the block. */
CU_DEV int64_t attn_row(const struct attn_job &j, const struct attn_rows &r, int i) {
    const int at = r.r0 + i;
    return ((int64_t)r.seg.row + at / j.group) * j.n_heads + r.head * j.group + at % j.group;
}

/* ---- the running softmax ---- */

struct softmax {
    float top, sum; /* largest score so far; sum of exp(score - top) */
};
CU_DEV struct softmax softmax_empty(void) {
    const struct softmax s = {-INFINITY, 0.0f};
    return s;
}
/* Returns the value to subtract from scores: the maximum. If all keys so far were masked it is 0,
 * so that all terms are 0. */
CU_DEV float softmax_base(float top) {
    return top == -INFINITY ? 0.0f : top;
}
/* Raises the running maximum to `most`, the largest of a row's next scores, if that is larger.
 * Returns the factor by which to scale sums made with the old maximum. */
CU_DEV float softmax_raise(struct softmax *s, float most) {
    const float top = fmaxf(most, s->top), fix = expf(s->top - softmax_base(top));
    s->top = top;
    s->sum *= fix;
    return fix;
}

/* ---- tiles as floats, the output ---- */

/* Loads a tile of keys or values: value c of key k to to[k * ld + c]. Keys from n_keys to KEYS
 * become zeros. */
template <int KEYS, int BLOCK>
CU_DEV void attn_load(const struct kv_plane &p, const struct kv_span &span, int head, int n_keys,
                      int ld, float *to) {
    const int units = p.dim / 8;
    for (int i = (int)threadIdx.x; i < KEYS * units; i += BLOCK) {
        const int key = i / units, u = i % units;
        float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        if (key < n_keys)
            kv_load8<KV_ANY>(p, kv_page_of(span, key), kv_row_of(span, head, key), u, v);
        for (int c = 0; c < 8; c++) to[key * ld + 8 * u + c] = v[c];
    }
}

/* Writes value i of an output row, times its gate. Returns the value written. */
CU_DEV float attn_store(const struct attn_job &j, int64_t row, int dim, int i, float v) {
    if (j.gate) v *= cu_sigmoid(j.gate[row * j.gate_ld + i]);
    return j.out[row * dim + i] = v;
}

#endif
