// SPDX-License-Identifier: MIT
/* kernels/cuda/cores.cuh - attention on CUDA cores, in f32.
 *
 * attend_part: one token, with the keys split into parts (split.cuh). A block takes a part of the
 * keys of one kv head for up to GC of its query heads, so that keys and values are read once for
 * all of them. A sub-warp computes the scores of one key, 8 values per lane; then comes the softmax
 * of the chunk; then a sub-warp handles one value row. Memory traffic: each key and value once,
 * plus head_dim + 2 floats per part and head.
 *
 * attend_tile: several tokens. A block takes ROWS rows of one kv head and walks the keys in tiles
 * with a running softmax. */
#ifndef HONE_KERNELS_CUDA_CORES_CUH
#define HONE_KERNELS_CUDA_CORES_CUH

#include "kernels/cuda/split.cuh"

enum { CORES_BLOCK = 256, CORES_WARPS = CORES_BLOCK / 32 };

/* ---- one token ---- */

enum { KEY_CHUNK = 128 };

/* Sums r[0..GC) over sub-warps of `lanes` lanes (a power of two, at least 8). Afterwards lane l
 * of a sub-warp holds the sum of value head_of<GC>(l). Each step halves the values that a lane
 * carries. */
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

/* A thread's share of a chunk's keys. It is lane l of the `lanes` lanes of sub-warp `sub` (of n_sub
 * in a warp), and has units l, l + lanes, ... of 8 values. */
struct part_thread {
    int warp, lane, lanes, sub, n_sub, l, units;
};
template <int NU> CU_DEV struct part_thread part_thread_of(int dim) {
    struct part_thread t;
    t.warp = (int)threadIdx.x / 32;
    t.lane = (int)threadIdx.x % 32;
    t.units = dim / 8;
    t.lanes = 8;
    while (t.lanes < 32 && t.lanes * NU < t.units) t.lanes *= 2;
    t.sub = t.lane / t.lanes;
    t.l = t.lane % t.lanes;
    t.n_sub = 32 / t.lanes;
    return t;
}

/* Loads the thread's values of n_g query heads, starting at row `row`. */
template <int NU, int GC>
CU_DEV void part_queries(const struct attn_job &j, const struct part_thread &t, int64_t row,
                         int n_g, float q[GC][NU][8]) {
    CU_UNROLL
    for (int g = 0; g < GC; g++) CU_UNROLL
    for (int n = 0; n < NU; n++) CU_UNROLL
    for (int i = 0; i < 8; i++) {
        const int u = t.l + n * t.lanes;
        const bool in = g < n_g && u < t.units;
        q[g][n][i] = in ? j.scale * j.q[(row + g) * j.k.dim + 8 * u + i] : 0.0f;
    }
}

/* Computes the scores of a chunk, sc [key][head]. All lanes of a warp make the same number of
 * iterations. */
template <int FORM, int NU, int GC>
CU_DEV void part_scores(const struct kv_plane &k, const struct kv_span &span, int head, int n_keys,
                        const struct part_thread &t, const float q[GC][NU][8], float *sc) {
    for (int kk = t.warp * t.n_sub; kk < n_keys; kk += CORES_WARPS * t.n_sub) {
        const int key = kk + t.sub;
        float r[GC];
        CU_UNROLL
        for (int g = 0; g < GC; g++) r[g] = 0.0f;
        CU_UNROLL
        for (int n = 0; n < NU; n++) {
            const int u = t.l + n * t.lanes;
            float v[8];
            if (key < n_keys && u < t.units) {
                kv_load8<FORM>(k, kv_page_of(span, key), kv_row_of(span, head, key), u, v);
                CU_UNROLL
                for (int g = 0; g < GC; g++) CU_UNROLL
                for (int i = 0; i < 8; i++) r[g] = fmaf(q[g][n][i], v[i], r[g]);
            }
        }
        const float v = spread_sum<GC>(r, t.lanes, t.l);
        if (t.l < GC && key < n_keys) sc[key * GC + head_of<GC>(t.l)] = v;
    }
}

/* Replaces the scores of a chunk by probabilities, a warp per head. fix: receives the factors that
 * rescale earlier sums. */
template <int GC>
CU_DEV void part_softmax(const struct part_thread &t, int n_keys, float *sc, struct softmax *st,
                         float *fix) {
    for (int g = t.warp; g < GC; g += CORES_WARPS) {
        struct softmax mine = st[g];
        float most = -INFINITY, s = 0.0f;
        for (int k = t.lane; k < n_keys; k += 32) most = fmaxf(most, sc[k * GC + g]);
        const float by = softmax_raise(&mine, cu_warp_max(most));
        for (int k = t.lane; k < n_keys; k += 32) {
            const float p = expf(sc[k * GC + g] - mine.top);
            sc[k * GC + g] = p;
            s += p;
        }
        mine.sum += cu_warp_sum(s);
        cu_syncwarp(); /* all lanes have read st[g] */
        if (t.lane == 0) {
            fix[g] = by;
            st[g] = mine;
        }
    }
}

/* Adds the values of a chunk, each times its probability for each head. */
template <int FORM, int NU, int GC>
CU_DEV void part_values(const struct kv_plane &vp, const struct kv_span &span, int head, int n_keys,
                        const struct part_thread &t, const float *sc, float acc[GC][NU][8]) {
    for (int key = t.warp * t.n_sub + t.sub; key < n_keys; key += CORES_WARPS * t.n_sub) {
        CU_UNROLL
        for (int n = 0; n < NU; n++) {
            const int u = t.l + n * t.lanes;
            float v[8];
            if (u >= t.units) continue;
            kv_load8<FORM>(vp, kv_page_of(span, key), kv_row_of(span, head, key), u, v);
            CU_UNROLL
            for (int g = 0; g < GC; g++) {
                const float p = sc[key * GC + g];
                CU_UNROLL
                for (int i = 0; i < 8; i++) acc[g][n][i] = fmaf(p, v[i], acc[g][n][i]);
            }
        }
    }
}

/* Adds up the block's sums of n_g heads in shared memory, one sub-warp after the other. */
template <int NU, int GC>
CU_DEV void part_add_up(const struct part_thread &t, int dim, int n_g, const float acc[GC][NU][8],
                        float *sums) {
    for (int w = 0; w < CORES_WARPS * t.n_sub; w++) {
        if (w == t.warp * t.n_sub + t.sub)
            for (int g = 0; g < n_g; g++)
                for (int n = 0; n < NU; n++) {
                    const int u = t.l + n * t.lanes;
                    for (int i = 0; i < 8 && u < t.units; i++) {
                        float *to = &sums[g * dim + 8 * u + i];
                        *to = w ? *to + acc[g][n][i] : acc[g][n][i];
                    }
                }
        __syncthreads();
    }
}

/* Computes attention over one part of the keys. NU is the number of 8-value units per lane, GC
 * the query heads per block. The grid is (parts, kv heads, chunks of heads of a segment); only
 * the segment's first row is used. Keys are processed in chunks of KEY_CHUNK with a running
 * maximum. */
template <int FORM, int NU, int GC>
CU_KERNEL __launch_bounds__(CORES_BLOCK) attend_part(struct attn_job j) {
    CU_SHARED(float, sc, [KEY_CHUNK * GC]); /* [key][head] */
    CU_SHARED(struct softmax, st, [GC]);
    CU_SHARED(float, fix, [GC]);
    CU_DYN_SHARED(float, sums); /* [GC][dim] */
    cu_wait_before();
    const int chunks = (j.group + GC - 1) / GC, of_seg = (int)blockIdx.z / chunks;
    const int part = (int)blockIdx.x, head = (int)blockIdx.y, g0 = (int)blockIdx.z % chunks * GC;
    const struct cu_seg seg = j.seg[of_seg];
    const struct cut c = cut_keys(j, seg);
    if (part >= c.n) return;
    const struct kv_table table = kv_table_of(seg, j.slot, j.n_slots);
    const struct part_thread t = part_thread_of<NU>(j.k.dim);
    const int dim = j.k.dim, n_g = j.group - g0 < GC ? j.group - g0 : GC, h0 = head * j.group + g0;
    const int64_t first = part * c.step,
                  last = first + c.step < c.n_keys ? first + c.step : c.n_keys;
    float q[GC][NU][8], acc[GC][NU][8] = {};
    part_queries<NU, GC>(j, t, (int64_t)seg.row * j.n_heads + h0, n_g, q);
    if (threadIdx.x < GC) st[threadIdx.x] = softmax_empty();
    for (int64_t k0 = first; k0 < last; k0 += KEY_CHUNK) {
        const int n_keys = last - k0 < KEY_CHUNK ? (int)(last - k0) : KEY_CHUNK;
        const struct kv_span span = kv_span_of(table, c.k0 + k0, n_keys);
        part_scores<FORM, NU, GC>(j.k, span, head, n_keys, t, q, sc);
        __syncthreads();
        part_softmax<GC>(t, n_keys, sc, st, fix);
        __syncthreads();
        if (k0 > first) {
            CU_UNROLL
            for (int g = 0; g < GC; g++) CU_UNROLL
            for (int n = 0; n < NU; n++) CU_UNROLL
            for (int i = 0; i < 8; i++) acc[g][n][i] *= fix[g];
        }
        part_values<FORM, NU, GC>(j.v, span, head, n_keys, t, sc, acc);
        __syncthreads(); /* before sc is overwritten */
    }
    part_add_up<NU, GC>(t, dim, n_g, acc, sums);
    const int64_t mine = (int64_t)of_seg * j.longest * j.n_heads + h0;
    for (int i = (int)threadIdx.x; i < n_g * dim; i += CORES_BLOCK)
        j.part[((mine + i / dim) * j.n_splits + part) * dim + i % dim] = sums[i];
    if ((int)threadIdx.x < n_g) *part_stat(j, mine + (int)threadIdx.x, part) = st[threadIdx.x];
}

template <int FORM>
/* Launches attention of single rows, split into parts. */
static int launch_one(struct cu_stream *s, const struct attn_job *j, struct err *e) {
    const bool wide = j->k.dim > 256;
    const int gc = wide ? 4 : 8;
    const dim3 grid((unsigned)j->n_splits, (unsigned)j->n_kv,
                    (unsigned)(div_up(j->group, gc) * j->n_segs));
    const size_t smem = (size_t)(gc * j->k.dim) * sizeof(float);
    if (wide)
        CU_LAUNCH_EARLY(e, (attend_part<FORM, 2, 4>), grid, CORES_BLOCK, smem, s, *j);
    else
        CU_LAUNCH_EARLY(e, (attend_part<FORM, 1, 8>), grid, CORES_BLOCK, smem, s, *j);
    return 0;
}
/* Launches the kernel for the cache's types. */
static int launch_cores(struct cu_stream *s, const struct attn_job *j, struct err *e) {
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

/* ---- several tokens ---- */

/* The threads of a block form a 16 x 16 square. Each thread has ROWS / 16 rows, and every 16th key
 * and value. */
struct tile_thread {
    int ty, tx;
};

/* Computes the thread's scores of a tile. Columns are rotated by tx, so that the 16 keys that a
 * warp reads are in different banks. */
template <int RT, int KT>
CU_DEV void tile_scores(const struct tile_thread &t, int dim, const float *q, const float *k,
                        float s[RT][KT]) {
    CU_UNROLL
    for (int a = 0; a < RT; a++) CU_UNROLL
    for (int b = 0; b < KT; b++) s[a][b] = 0.0f;
    for (int i = 0; i < dim; i += 4) {
        int c = i + 4 * t.tx;
        c = c >= dim ? c - c / dim * dim : c;
        CU_UNROLL
        for (int b = 0; b < KT; b++) {
            const float4 kk = *(const float4 *)(const void *)&k[(t.tx + 16 * b) * dim + c];
            CU_UNROLL
            for (int a = 0; a < RT; a++) {
                const float4 qq = *(const float4 *)(const void *)&q[(t.ty + 16 * a) * dim + c];
                s[a][b] = fmaf(qq.x, kk.x, s[a][b]);
                s[a][b] = fmaf(qq.y, kk.y, s[a][b]);
                s[a][b] = fmaf(qq.z, kk.z, s[a][b]);
                s[a][b] = fmaf(qq.w, kk.w, s[a][b]);
            }
        }
    }
}

/* Replaces the scores of a tile, p [ROWS][TILE + 1], by probabilities, a warp per row. fix:
 * receives the factors that rescale earlier sums. */
template <int ROWS, int TILE> CU_DEV void tile_softmax(float *p, struct softmax *st, float *fix) {
    const int lane = (int)threadIdx.x % 32;
    for (int row = (int)threadIdx.x / 32; row < ROWS; row += CORES_WARPS) {
        struct softmax mine = st[row];
        float x = lane < TILE ? p[row * (TILE + 1) + lane] : -INFINITY;
        const float by = softmax_raise(&mine, cu_warp_max(x));
        x = expf(x - softmax_base(mine.top));
        if (lane < TILE) p[row * (TILE + 1) + lane] = x;
        mine.sum += cu_warp_sum(x);
        cu_syncwarp(); /* all lanes have read st[row] */
        if (lane == 0) {
            fix[row] = by;
            st[row] = mine;
        }
    }
}

/* Computes attention of many rows. A block computes ROWS x TILE scores and ROWS x dim outputs.
 * Shared memory holds queries [ROWS][dim], a tile of keys that is later replaced by values
 * [TILE][dim], and probabilities [ROWS][TILE + 1]. */
template <int ROWS, int TILE, int COLS>
CU_KERNEL __launch_bounds__(CORES_BLOCK) attend_tile(struct attn_job j) {
    enum { RT = ROWS / 16, KT = TILE / 16 };
    CU_DYN_SHARED(float, mem);
    CU_SHARED(struct softmax, st, [ROWS]);
    CU_SHARED(float, fix, [ROWS]);
    const int dim = j.k.dim;
    float *q = mem, *kv = q + ROWS * dim, *p = kv + TILE * dim;
    const struct tile_thread t = {(int)threadIdx.x / 16, (int)threadIdx.x % 16};
    const struct attn_rows rows = attn_rows_of(j, ROWS);
    if (rows.n <= 0) return;
    for (int i = (int)threadIdx.x; i < ROWS * dim; i += CORES_BLOCK)
        q[i] = i / dim < rows.n ? j.scale * j.q[attn_row(j, rows, i / dim) * dim + i % dim] : 0.0f;
    if (threadIdx.x < ROWS) st[threadIdx.x] = softmax_empty();
    float acc[RT][COLS] = {};
    for (int64_t k0 = rows.begin; k0 < rows.end; k0 += TILE) {
        const int n_keys = (int)cu_min(rows.end - k0, TILE);
        const struct kv_span span = kv_span_of(rows.table, k0, n_keys);
        __syncthreads();
        attn_load<TILE, CORES_BLOCK>(j.k, span, rows.head, n_keys, dim, kv);
        __syncthreads();
        float s[RT][KT];
        tile_scores<RT, KT>(t, dim, q, kv, s);
        CU_UNROLL
        for (int a = 0; a < RT; a++) {
            const int row = t.ty + 16 * a;
            const struct attn_span sees = attn_span_of(j, attn_seen(j, rows, row), k0);
            CU_UNROLL
            for (int b = 0; b < KT; b++) {
                const int key = t.tx + 16 * b;
                const bool in = key >= sees.from && key < sees.to;
                p[row * (TILE + 1) + key] = in ? s[a][b] : -INFINITY;
            }
        }
        __syncthreads();
        attn_load<TILE, CORES_BLOCK>(j.v, span, rows.head, n_keys, dim, kv); /* replaces the keys */
        tile_softmax<ROWS, TILE>(p, st, fix);
        __syncthreads();
        CU_UNROLL
        for (int a = 0; a < RT; a++) {
            const int row = t.ty + 16 * a;
            CU_UNROLL
            for (int c = 0; c < COLS; c++) acc[a][c] *= fix[row];
            for (int key = 0; key < n_keys; key++) {
                const float w = p[row * (TILE + 1) + key];
                CU_UNROLL
                for (int c = 0; c < COLS; c++)
                    if (t.tx + 16 * c < dim)
                        acc[a][c] = fmaf(w, kv[key * dim + t.tx + 16 * c], acc[a][c]);
            }
        }
    }
    CU_UNROLL
    for (int a = 0; a < RT; a++) {
        const int row = t.ty + 16 * a;
        if (row >= rows.n) continue;
        const int64_t at = attn_row(j, rows, row);
        CU_UNROLL
        for (int c = 0; c < COLS; c++) {
            const int i = t.tx + 16 * c;
            if (i < dim) attn_store(j, at, dim, i, acc[a][c] / st[row].sum);
        }
    }
}

template <int ROWS, int TILE, int COLS>
/* Launches attention of many rows in tiles of ROWS queries. */
static int launch_tile_of(struct cu_stream *s, const struct attn_job *j, dim3 grid, struct err *e) {
    grid.x = (unsigned)div_up((int)grid.x, ROWS);
    const size_t smem = (size_t)((ROWS + TILE) * j->k.dim + ROWS * (TILE + 1)) * sizeof(float);
    CU_SMEM(e, (attend_tile<ROWS, TILE, COLS>), smem);
    CU_LAUNCH(e, (attend_tile<ROWS, TILE, COLS>), grid, CORES_BLOCK, smem, s, *j);
    return 0;
}
/* Launches the kernel for this head size. */
static int launch_tile(struct cu_stream *s, const struct attn_job *j, dim3 grid, struct err *e) {
    if (j->k.dim <= 64) return launch_tile_of<32, 32, 4>(s, j, grid, e);
    if (j->k.dim <= 128) return launch_tile_of<32, 32, 8>(s, j, grid, e);
    if (j->k.dim <= 256) return launch_tile_of<32, 32, 16>(s, j, grid, e);
    return launch_tile_of<16, 16, 32>(s, j, grid, e);
}

#endif
