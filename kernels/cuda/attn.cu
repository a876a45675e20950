// SPDX-License-Identifier: MIT
/* kernels/cuda/attn.cu - causal attention over the cache (kv.cu fills it).
 *
 * cu_attn_few: few tokens, keys in parts (split.cuh), on tensor cores (few.cuh) or here, one token
 * and f32: a block takes a part of the keys of one kv head for up to GC of its query heads, so that
 * keys and values are read once for all of them: a sub-warp per key and 8 values a lane for the
 * scores, softmax of the part, then a sub-warp per value row.
 * Bytes: each key and value once, and head_dim + 2 floats per part and head.
 *
 * cu_attn_many: several tokens. A block takes ROWS (token, head) rows of one kv head and walks the
 * keys in tiles with a running maximum and sum. Products are f32 on the CUDA cores; flash.cuh has
 * the same on tensor cores.
 * */
#include "kernels/cuda/few.cuh"
#include "kernels/cuda/flash.cuh"

enum { BLOCK = 256, WARPS = BLOCK / 32 };

/* ---- one token ---- */

enum { KEY_CHUNK = 128 };

/* Sums r[0..GC) over sub-warps of `lanes` lanes (a power of two, at least 8). Afterwards lane l
 * of a sub-warp holds the sum of value head_of<GC>(l). Each step halves what a lane carries. */
template <int GC> CU_DEV float spread_sum(float r[GC], int lanes, int lane) {
    int m = 1;
    CU_UNROLL
    for (int n = GC / 2; n > 0; n /= 2, m *= 2) {
        const bool up = (lane & m) != 0;
        CU_UNROLL
        for (int i = 0; i < n; i++) {
            const float send = up ? r[i] : r[i + n], keep = up ? r[i + n] : r[i];
            r[i] = keep + cu_shfl_xor(send, m);
        }
    }
    float v = r[0];
    for (; m < lanes; m *= 2) v += cu_shfl_xor(v, m);
    return v;
}
template <int GC> CU_DEV int head_of(int lane) {
    int h = 0, m = 1;
    for (int n = GC / 2; n > 0; n /= 2, m *= 2)
        if (lane & m) h += n;
    return h;
}

/* Computes attention over one part of the keys. NU is the units of 8 values per lane, GC the
 * query heads of a block. A block is (part, kv head, chunk of heads of a segment); only the
 * segment's first row is looked at. Keys go through in chunks of KEY_CHUNK with a running
 * maximum. */
template <int FORM, int NU, int GC>
CU_KERNEL __launch_bounds__(BLOCK) attend_part(struct part_job j) {
    CU_SHARED(float, sc, [KEY_CHUNK * GC]); /* [key][head] */
    CU_SHARED(float, top, [GC]);
    CU_SHARED(float, sum, [GC]);
    CU_SHARED(float, fix, [GC]);
    CU_DYN_SHARED(float, acc_all); /* [GC][dim] */
    cu_wait_before();
    const int chunks = (j.group + GC - 1) / GC, of_seg = (int)blockIdx.z / chunks;
    const int part = (int)blockIdx.x, head = (int)blockIdx.y, g0 = (int)blockIdx.z % chunks * GC;
    const struct cu_seg seg = j.seg[of_seg];
    const struct cut c = cut_keys(j, seg);
    if (part >= c.n) return;
    const struct kv_table table = kv_table_of(seg, j.slot, j.n_slots);
    const int dim = j.k.dim, units = dim / 8, warp = (int)threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32, n_g = j.group - g0 < GC ? j.group - g0 : GC;
    int lanes = 8; /* of a key */
    while (lanes < 32 && lanes * NU < units) lanes *= 2;
    const int sub = lane / lanes, l = lane % lanes, n_sub = 32 / lanes;
    const int64_t first = part * c.step,
                  last = first + c.step < c.n_keys ? first + c.step : c.n_keys;
    const int64_t row = (int64_t)seg.row * j.n_heads,
                  mine = (int64_t)of_seg * j.longest * j.n_heads;
    float q[GC][NU][8], acc[GC][NU][8];
    CU_UNROLL
    for (int g = 0; g < GC; g++) CU_UNROLL
    for (int n = 0; n < NU; n++) CU_UNROLL
    for (int i = 0; i < 8; i++) {
        const int u = l + n * lanes;
        const bool in = g < n_g && u < units;
        q[g][n][i] = in ? j.scale * j.q[(row + head * j.group + g0 + g) * dim + 8 * u + i] : 0.0f;
        acc[g][n][i] = 0.0f;
    }
    if (threadIdx.x < GC) {
        top[threadIdx.x] = -INFINITY;
        sum[threadIdx.x] = 0.0f;
    }
    for (int64_t k0 = first; k0 < last; k0 += KEY_CHUNK) {
        const int n_keys = last - k0 < KEY_CHUNK ? (int)(last - k0) : KEY_CHUNK;
        const struct kv_span span = kv_span_of(table, c.k0 + k0, n_keys);
        /* The scores. Whole warps go round together. */
        for (int kk = warp * n_sub; kk < n_keys; kk += WARPS * n_sub) {
            const int key = kk + sub;
            float r[GC];
            CU_UNROLL
            for (int g = 0; g < GC; g++) r[g] = 0.0f;
            CU_UNROLL
            for (int n = 0; n < NU; n++) {
                const int u = l + n * lanes;
                float v[8];
                if (key < n_keys && u < units) {
                    kv_load8<FORM>(j.k, kv_page_of(span, key), kv_row_of(span, head, key), u, v);
                    CU_UNROLL
                    for (int g = 0; g < GC; g++) CU_UNROLL
                    for (int i = 0; i < 8; i++) r[g] = fmaf(q[g][n][i], v[i], r[g]);
                }
            }
            const float v = spread_sum<GC>(r, lanes, l);
            if (l < GC && key < n_keys) sc[key * GC + head_of<GC>(l)] = v;
        }
        __syncthreads();
        /* The softmax of the chunk, a warp per head. */
        for (int g = warp; g < GC; g += WARPS) {
            float m = -INFINITY, s = 0.0f;
            for (int k = lane; k < n_keys; k += 32) m = fmaxf(m, sc[k * GC + g]);
            m = fmaxf(cu_warp_max(m), top[g]);
            for (int k = lane; k < n_keys; k += 32) {
                const float p = expf(sc[k * GC + g] - m);
                sc[k * GC + g] = p;
                s += p;
            }
            s = cu_warp_sum(s);
            cu_syncwarp(); /* every lane has read top[g] */
            if (lane == 0) {
                fix[g] = expf(top[g] - m);
                sum[g] = sum[g] * fix[g] + s;
                top[g] = m;
            }
        }
        __syncthreads();
        if (k0 > first) {
            CU_UNROLL
            for (int g = 0; g < GC; g++) CU_UNROLL
            for (int n = 0; n < NU; n++) CU_UNROLL
            for (int i = 0; i < 8; i++) acc[g][n][i] *= fix[g];
        }
        for (int key = warp * n_sub + sub; key < n_keys; key += WARPS * n_sub) {
            CU_UNROLL
            for (int n = 0; n < NU; n++) {
                const int u = l + n * lanes;
                float v[8];
                if (u >= units) continue;
                kv_load8<FORM>(j.v, kv_page_of(span, key), kv_row_of(span, head, key), u, v);
                CU_UNROLL
                for (int g = 0; g < GC; g++) {
                    const float p = sc[key * GC + g];
                    CU_UNROLL
                    for (int i = 0; i < 8; i++) acc[g][n][i] = fmaf(p, v[i], acc[g][n][i]);
                }
            }
        }
        __syncthreads(); /* sc is written again */
    }
    /* Sub-warps add into shared memory in a fixed order. */
    for (int w = 0; w < WARPS * n_sub; w++) {
        if (w == warp * n_sub + sub)
            for (int g = 0; g < n_g; g++)
                for (int n = 0; n < NU; n++) {
                    const int u = l + n * lanes;
                    for (int i = 0; i < 8 && u < units; i++) {
                        float *to = &acc_all[g * dim + 8 * u + i];
                        *to = w ? *to + acc[g][n][i] : acc[g][n][i];
                    }
                }
        __syncthreads();
    }
    for (int i = (int)threadIdx.x; i < n_g * dim; i += BLOCK) {
        const int64_t h = mine + head * j.group + g0 + i / dim;
        j.part[(h * j.n_splits + part) * dim + i % dim] = acc_all[i];
    }
    if ((int)threadIdx.x < n_g) {
        float *stat = part_stat(j, mine + head * j.group + g0 + (int)threadIdx.x, part);
        stat[0] = top[threadIdx.x];
        stat[1] = sum[threadIdx.x];
    }
}

template <int FORM>
static int launch_one(struct cu_stream *s, const struct part_job *j, struct err *e) {
    const bool wide = j->k.dim > 256;
    const int gc = wide ? 4 : 8;
    const dim3 grid((unsigned)j->n_splits, (unsigned)j->n_kv,
                    (unsigned)(div_up(j->group, gc) * j->n_segs));
    const size_t smem = (size_t)(gc * j->k.dim) * sizeof(float);
    if (wide)
        CU_LAUNCH_EARLY(e, (attend_part<FORM, 2, 4>), grid, BLOCK, smem, s, *j);
    else
        CU_LAUNCH_EARLY(e, (attend_part<FORM, 1, 8>), grid, BLOCK, smem, s, *j);
    return 0;
}

/* Launches the kernel of few.cuh for the size of the heads. */
template <int KF, int VF>
static int launch_few_of(struct cu_stream *s, const struct part_job *j, struct err *e) {
    switch (j->k.dim) {
    case 64:
        return launch_few<KF, VF, 64>(s, j, e);
    case 128:
        return launch_few<KF, VF, 128>(s, j, e);
    case 256:
        return launch_few<KF, VF, 256>(s, j, e);
    default:
        return launch_few<KF, VF, 512>(s, j, e);
    }
}
/* The caches that have kernels of their own on tensor cores. */
static const struct cache_form {
    enum qtype k, v;
    int (*few)(struct cu_stream *s, const struct part_job *j, struct err *e);
    int (*many)(struct cu_stream *s, const struct many_job *j, dim3 grid, struct err *e);
} cache_form[] = {
#define ROW(k, v, kf, vf)                                                                          \
    { k, v, launch_few_of<kf, vf>, launch_flash<kf, vf> }
    ROW(QT_F16, QT_F16, KV_F16, KV_F16),
    ROW(QT_Q8_0, QT_Q8_0, KV_Q8, KV_Q8),
    ROW(QT_Q4_0, QT_Q4_0, KV_Q4, KV_Q4),
    ROW(QT_Q8_0, QT_Q4_0, KV_Q8, KV_Q4),
#undef ROW
};
/* Returns the cache's row where heads have 64, 128, 256 or 512 values, or NULL. */
static const struct cache_form *cache_form_of(const struct cu_attn *a) {
    if (a->head_dim != 64 && a->head_dim != 128 && a->head_dim != 256 && a->head_dim != 512)
        return NULL;
    for (size_t i = 0; i < sizeof cache_form / sizeof *cache_form; i++)
        if (cache_form[i].k == a->k_type && cache_form[i].v == a->v_type) return &cache_form[i];
    return NULL;
}
int64_t cu_attn_few_rows(const struct cu_attn *a) {
    return a->fast_few && cache_form_of(a) ? CU_FEW : 1;
}

static int launch_cores(struct cu_stream *s, const struct part_job *j, struct err *e) {
    if (j->k.form != j->v.form) return launch_one<KV_ANY>(s, j, e);
    switch (j->k.form) {
    case KV_F32:
        return launch_one<KV_F32>(s, j, e);
    case KV_F16:
        return launch_one<KV_F16>(s, j, e);
    case KV_Q8:
        return launch_one<KV_Q8>(s, j, e);
    default:
        return launch_one<KV_Q4>(s, j, e);
    }
}

int cu_attn_few(struct cu_stream *s, const struct cu_attn *a, struct err *e) {
    struct part_job j;
    if (a->rows.longest > cu_attn_few_rows(a))
        return err_set(e, ERR_USAGE, "CUDA: attention of %lld tokens in parts",
                       (long long)a->rows.longest);
    TRY(kv_open(&j.k, &j.v, a, e));
    if (a->rows.n_segs < 1) return 0;
    j.q = a->q;
    j.gate = a->gate;
    j.gate_ld = a->gate_ld ? a->gate_ld : a->head_dim;
    j.part = a->part;
    j.out = a->out;
    j.out_q = (uint8_t *)a->out_q;
    j.seg = a->rows.seg;
    j.n_segs = (int)a->rows.n_segs;
    j.longest = (int)a->rows.longest;
    j.slot = a->slot;
    j.n_slots = a->n_slots;
    j.window = a->window;
    j.scale = a->scale;
    j.n_heads = (int)a->n_heads;
    j.n_kv = (int)a->n_kv_heads;
    j.group = (int)(a->n_heads / a->n_kv_heads);
    j.n_splits = (int)a->n_splits;
    const struct cache_form *form = a->fast_few ? cache_form_of(a) : NULL;
    TRY(form ? form->few(s, &j, e) : launch_cores(s, &j, e));
    const dim3 grid((unsigned)div_up(a->head_dim, 32), (unsigned)(a->rows.longest * a->n_heads),
                    (unsigned)a->rows.n_segs);
    const size_t smem = (size_t)a->n_splits * sizeof(float);
    CU_LAUNCH_EARLY(e, merge_parts, grid, MERGE_BLOCK, smem, s, j);
    return 0;
}

/* ---- several tokens ---- */

/* Computes attention of many rows. A block computes ROWS x TILE scores and ROWS x dim outputs:
 * its threads lie as 16 x 16, and each has ROWS/16 rows, and columns 16 apart. Shared memory has
 * queries [ROWS][dim], one tile of keys, then of values [TILE][dim], and probabilities
 * [ROWS][TILE + 1]. */
template <int ROWS, int TILE, int COLS>
CU_KERNEL __launch_bounds__(BLOCK) attend_tile(struct many_job j) {
    enum { RT = ROWS / 16, KT = TILE / 16 };
    CU_DYN_SHARED(float, mem);
    CU_SHARED(float, top, [ROWS]);
    CU_SHARED(float, sum, [ROWS]);
    CU_SHARED(float, fix, [ROWS]);
    const int dim = j.k.dim, units = dim / 8, head = (int)blockIdx.y;
    float *q = mem, *kv = q + ROWS * dim, *p = kv + TILE * dim;
    const int ty = (int)threadIdx.x / 16, tx = (int)threadIdx.x % 16;
    /* Later rows see more keys, so they start first. */
    const int r0 = ((int)gridDim.x - 1 - (int)blockIdx.x) * ROWS;
    const struct cu_seg seg = j.seg[blockIdx.z];
    const struct kv_table table = kv_table_of(seg, j.slot, j.n_slots);
    const int n_rows = (int)cu_min(seg.n * j.group - r0, ROWS);
    const int64_t pos = seg.pos;
    if (n_rows <= 0) return;
    for (int i = (int)threadIdx.x; i < ROWS * dim; i += BLOCK) {
        const int r = r0 + i / dim;
        q[i] = i / dim < n_rows ? j.scale * j.q[fl_row(j, seg, head, r) * dim + i % dim] : 0.0f;
    }
    if (threadIdx.x < ROWS) {
        top[threadIdx.x] = -INFINITY;
        sum[threadIdx.x] = 0.0f;
    }
    float acc[RT][COLS];
    CU_UNROLL
    for (int a = 0; a < RT; a++) CU_UNROLL
    for (int c = 0; c < COLS; c++) acc[a][c] = 0.0f;
    const int64_t seen0 = pos + r0 / j.group + 1; /* by the first row */
    const int64_t end = pos + (r0 + n_rows - 1) / j.group + 1;
    const int64_t begin = j.window > 0 && seen0 > j.window ? seen0 - j.window : 0;
    for (int64_t k0 = begin; k0 < end; k0 += TILE) {
        const int n_keys = end - k0 < TILE ? (int)(end - k0) : TILE;
        const struct kv_span span = kv_span_of(table, k0, n_keys);
        __syncthreads();
        for (int i = (int)threadIdx.x; i < TILE * units; i += BLOCK) {
            float v[8];
            const int key = i / units, u = i % units;
            for (int c = 0; c < 8; c++) v[c] = 0.0f;
            if (key < n_keys)
                kv_load8<KV_ANY>(j.k, kv_page_of(span, key), kv_row_of(span, head, key), u, v);
            for (int c = 0; c < 8; c++) kv[key * dim + 8 * u + c] = v[c];
        }
        __syncthreads();
        float s[RT][KT];
        CU_UNROLL
        for (int a = 0; a < RT; a++) CU_UNROLL
        for (int b = 0; b < KT; b++) s[a][b] = 0.0f;
        /* Columns are turned by tx, so that the 16 keys that a warp reads lie in different
         * banks. */
        for (int i = 0; i < dim; i += 4) {
            int c = i + 4 * tx;
            c = c >= dim ? c - c / dim * dim : c;
            CU_UNROLL
            for (int b = 0; b < KT; b++) {
                const float4 kk = *(const float4 *)(const void *)&kv[(tx + 16 * b) * dim + c];
                CU_UNROLL
                for (int a = 0; a < RT; a++) {
                    const float4 qq = *(const float4 *)(const void *)&q[(ty + 16 * a) * dim + c];
                    s[a][b] = fmaf(qq.x, kk.x, s[a][b]);
                    s[a][b] = fmaf(qq.y, kk.y, s[a][b]);
                    s[a][b] = fmaf(qq.z, kk.z, s[a][b]);
                    s[a][b] = fmaf(qq.w, kk.w, s[a][b]);
                }
            }
        }
        CU_UNROLL
        for (int a = 0; a < RT; a++) CU_UNROLL
        for (int b = 0; b < KT; b++) {
            const int row = ty + 16 * a, key = tx + 16 * b;
            const int64_t seen = pos + (r0 + row) / j.group + 1, k = k0 + key;
            const bool in = row < n_rows && k < seen && (j.window <= 0 || k >= seen - j.window);
            p[row * (TILE + 1) + key] = in ? s[a][b] : -INFINITY;
        }
        __syncthreads();
        for (int i = (int)threadIdx.x; i < TILE * units; i += BLOCK) { /* values replace the keys */
            float v[8];
            const int key = i / units, u = i % units;
            for (int c = 0; c < 8; c++) v[c] = 0.0f;
            if (key < n_keys)
                kv_load8<KV_ANY>(j.v, kv_page_of(span, key), kv_row_of(span, head, key), u, v);
            for (int c = 0; c < 8; c++) kv[key * dim + 8 * u + c] = v[c];
        }
        for (int row = (int)threadIdx.x / 32; row < ROWS; row += WARPS) { /* a warp per row */
            const int lane = (int)threadIdx.x % 32;
            const float old = top[row];
            float x = lane < TILE ? p[row * (TILE + 1) + lane] : -INFINITY;
            const float m = fmaxf(cu_warp_max(x), old);
            x = m == -INFINITY ? 0.0f : expf(x - m);
            if (lane < TILE) p[row * (TILE + 1) + lane] = x;
            x = cu_warp_sum(x);
            cu_syncwarp(); /* every lane has read top[row] */
            if (lane == 0) {
                fix[row] = m == -INFINITY ? 1.0f : expf(old - m);
                sum[row] = sum[row] * fix[row] + x;
                top[row] = m;
            }
        }
        __syncthreads();
        CU_UNROLL
        for (int a = 0; a < RT; a++) {
            const int row = ty + 16 * a;
            CU_UNROLL
            for (int c = 0; c < COLS; c++) acc[a][c] *= fix[row];
            for (int key = 0; key < n_keys; key++) {
                const float w = p[row * (TILE + 1) + key];
                CU_UNROLL
                for (int c = 0; c < COLS; c++)
                    if (tx + 16 * c < dim)
                        acc[a][c] = fmaf(w, kv[key * dim + tx + 16 * c], acc[a][c]);
            }
        }
    }
    CU_UNROLL
    for (int a = 0; a < RT; a++) {
        const int row = ty + 16 * a, r = r0 + row;
        if (row >= n_rows) continue;
        const int64_t at = fl_row(j, seg, head, r) * dim;
        CU_UNROLL
        for (int c = 0; c < COLS; c++) {
            const int i = tx + 16 * c;
            if (i >= dim) continue;
            float v = acc[a][c] / sum[row];
            if (j.gate) v *= 1.0f / (1.0f + expf(-j.gate[at / dim * j.gate_ld + i]));
            j.out[at + i] = v;
        }
    }
}

template <int ROWS, int TILE, int COLS>
static int launch_many(struct cu_stream *s, const struct many_job *j, dim3 grid, struct err *e) {
    grid.x = (unsigned)div_up((int)grid.x, ROWS);
    const size_t smem = (size_t)((ROWS + TILE) * j->k.dim + ROWS * (TILE + 1)) * sizeof(float);
    CU_SMEM(e, (attend_tile<ROWS, TILE, COLS>), smem);
    CU_LAUNCH(e, (attend_tile<ROWS, TILE, COLS>), grid, BLOCK, smem, s, *j);
    return 0;
}

int cu_attn_many(struct cu_stream *s, const struct cu_attn *a, struct err *e) {
    struct many_job j;
    TRY(kv_open(&j.k, &j.v, a, e));
    j.q = a->q;
    j.gate = a->gate;
    j.gate_ld = a->gate_ld ? a->gate_ld : a->head_dim;
    j.out = a->out;
    j.seg = a->rows.seg;
    j.slot = a->slot;
    j.n_slots = a->n_slots;
    j.window = a->window;
    j.scale = a->scale;
    j.n_heads = (int)a->n_heads;
    j.group = (int)(a->n_heads / a->n_kv_heads);
    const dim3 rows((unsigned)(a->rows.longest * j.group), (unsigned)a->n_kv_heads,
                    (unsigned)a->rows.n_segs); /* blocks of a launch: x is to be divided */
    if (a->rows.n_segs < 1) return 0;
    if (a->fast && j.k.dim <= 256 && j.k.dim % 16 == 0) {
        const struct cache_form *form = cache_form_of(a);
        return form ? form->many(s, &j, rows, e) : launch_flash_any(s, &j, rows, e);
    }
    if (j.k.dim <= 64) return launch_many<32, 32, 4>(s, &j, rows, e);
    if (j.k.dim <= 128) return launch_many<32, 32, 8>(s, &j, rows, e);
    if (j.k.dim <= 256) return launch_many<32, 32, 16>(s, &j, rows, e);
    return launch_many<16, 16, 32>(s, &j, rows, e);
}
