// SPDX-License-Identifier: MIT
/* kernels/cuda/delta.cu - recurrent layer: short causal convolution, gated delta rule. Formulas:
 * models/graph.h; d = beta * (v - a * M k), o = a * M q + (k q) d, M = a M + d k for every row.
 *
 * A block owns SLICE rows of one value head's state, with LANES threads per row, and keeps them in
 * registers over all tokens of the pass. Each block normalizes the queries and keys that it needs
 * in shared memory, T tokens at a time. The state is read and written once per pass.
 *
 * The convolution's past inputs are in a ring with as many slots as taps, so writing the current
 * token's slot destroys no input that is still read. Therefore each block of cu_delta_token can
 * convolve the channels it needs, without a separate launch. */
#include "kernels/cuda/chunk.cuh"
#include "kernels/cuda/limits.h"

enum { BLOCK = 256, WARPS = BLOCK / 32, LANES = 8, SLICE = BLOCK / LANES, T = 8 };

CU_DEV float softplus(float x) {
    return x > 20.0f ? x : log1pf(expf(x));
}

/* ---- convolution ---- */

CU_DEV int64_t slot_of(int64_t p, int taps) {
    return (p % taps + taps) % taps;
}

/* Chunks of CONV_TOK tokens are convolved in parallel, in place. If there are several chunks, the
 * inputs that precede each chunk's first token are first saved in `edge`, [segment][chunk][back -
 * 1][channel]; the first chunk reads them from the ring. */
enum { CONV_TOK = 64, CONV_EDGES = 256 };

CU_KERNEL __launch_bounds__(BLOCK) conv_edges(struct cu_delta a, int64_t n_ch, float *edge) {
    const struct cu_seg seg = a.rows.seg[blockIdx.y];
    const int64_t c = (int64_t)blockIdx.x * BLOCK + threadIdx.x,
                  t0 = (int64_t)blockIdx.z * CONV_TOK;
    const int taps = (int)a.taps;
    if (c >= n_ch || t0 >= seg.n) return;
    const float *ring = seg.state + a.ring_at;
    float *e = edge + ((int64_t)blockIdx.y * gridDim.z + blockIdx.z) * (taps - 1) * n_ch + c;
    CU_UNROLL
    for (int back = 1; back < CU_MOST_TAPS; back++)
        if (back < taps)
            e[(back - 1) * n_ch] = t0 ? a.u[(seg.row + t0 - back) * n_ch + c]
                                      : ring[slot_of(seg.pos - back, taps) * n_ch + c];
}

/* Convolves a chunk, a thread per channel. TAPS is at least the number of taps; surplus older
 * taps have weight 0. */
template <int TAPS>
CU_KERNEL __launch_bounds__(BLOCK) conv_silu(struct cu_delta a, int64_t n_ch, const float *edge) {
    const struct cu_seg seg = a.rows.seg[blockIdx.y];
    const int64_t c = (int64_t)blockIdx.x * BLOCK + threadIdx.x, p0 = seg.pos;
    const int64_t first = edge ? (int64_t)blockIdx.z * CONV_TOK : 0;
    const int64_t n_tok = edge ? cu_min(seg.n, first + CONV_TOK) : seg.n;
    const int taps = (int)a.taps;
    const float *w = a.conv;
    float *u = a.u + seg.row * n_ch, *ring = seg.state + a.ring_at;
    if (c >= n_ch || first >= n_tok) return;
    const int64_t e_at = ((int64_t)blockIdx.y * gridDim.z + blockIdx.z) * (taps - 1) * n_ch + c;
    const float *e = edge ? edge + e_at : NULL;
    const float bias = a.conv_bias ? a.conv_bias[c] : 0.0f;
    float tap[TAPS], past[TAPS]; /* past[j]: input j + 1 - TAPS tokens from now; last: now */
    CU_UNROLL
    for (int j = 0; j < TAPS; j++) {
        const int back = TAPS - 1 - j;
        const bool is = back > 0 && back < taps;
        tap[j] = back < taps ? w[c * taps + taps - 1 - back] : 0.0f;
        past[j] = !is    ? 0.0f
                  : edge ? e[(back - 1) * n_ch]
                         : ring[slot_of(p0 - back, taps) * n_ch + c];
    }
    for (int64_t t0 = first; t0 < n_tok; t0 += 8) {
        float x[8];
        CU_UNROLL
        for (int i = 0; i < 8; i++) x[i] = t0 + i < n_tok ? u[(t0 + i) * n_ch + c] : 0.0f;
        CU_UNROLL
        for (int i = 0; i < 8; i++) {
            if (t0 + i >= n_tok) break;
            past[TAPS - 1] = x[i];
            float s = bias;
            CU_UNROLL
            for (int j = TAPS - 1; j >= 0; j--) s = fmaf(tap[j], past[j], s);
            u[(t0 + i) * n_ch + c] = s * cu_sigmoid(s);
            CU_UNROLL
            for (int j = 0; j + 1 < TAPS; j++) past[j] = past[j + 1];
        }
    }
    if (n_tok < seg.n) return; /* the last chunk has the inputs for later passes */
    CU_UNROLL
    for (int back = 1; back < TAPS; back++) /* position p0 + n_tok - back */
        if (back < taps) ring[slot_of(p0 + n_tok - back, taps) * n_ch + c] = past[TAPS - 1 - back];
}

/* Replaces u by silu of its causal convolution, and updates the ring of inputs. */
int cu_conv_silu(struct cu_stream *s, const struct cu_delta *a, int64_t n_ch, struct err *e) {
    TRY(cu_check(CU_TAPS, a->taps, e));
    const int64_t chunks = div_up(a->rows.longest, CONV_TOK), n = a->rows.n_segs * chunks;
    dim3 grid((unsigned)div_up(n_ch, BLOCK), (unsigned)a->rows.n_segs);
    void *edge = NULL;
    if (a->rows.n_segs < 1 || n_ch < 1) return 0;
    if (chunks > 1 && a->taps > 1 && n <= CONV_EDGES) {
        TRY(cu_scratch(s, (uint64_t)(n * (a->taps - 1) * n_ch) * sizeof(float), &edge, e));
        grid.z = (unsigned)chunks;
        CU_LAUNCH(e, conv_edges, grid, BLOCK, 0, s, *a, n_ch, (float *)edge);
    }
    if (a->taps <= 4)
        CU_LAUNCH(e, conv_silu<4>, grid, BLOCK, 0, s, *a, n_ch, (const float *)edge);
    else
        CU_LAUNCH(e, conv_silu<CU_MOST_TAPS>, grid, BLOCK, 0, s, *a, n_ch, (const float *)edge);
    return 0;
}

/* Data of one channel for the current token, so that all loads precede the sum. */
struct conv_in {
    float x, bias, tap[CU_MOST_TAPS], past[CU_MOST_TAPS]; /* [back] */
};
template <int TAPS>
CU_DEV void conv_load(const struct cu_delta &a, const float *ring, int slot, int c, int n_ch,
                      struct conv_in &v) {
    const int taps = (int)a.taps;
    v.x = a.u[c];
    CU_UNROLL
    for (int back = 0; back < TAPS; back++) {
        const int at = slot - back < 0 ? slot - back + taps : slot - back;
        v.tap[back] = back < taps ? a.conv[c * taps + taps - 1 - back] : 0.0f;
        v.past[back] = back > 0 && back < taps ? ring[at * n_ch + c] : 0.0f;
    }
    v.bias = a.conv_bias ? a.conv_bias[c] : 0.0f;
}
/* Computes the sum for one channel. `keep`: also stores the raw input in the ring. */
template <int TAPS>
CU_DEV float conv_end(const struct cu_delta &a, float *ring, int slot, int c, int n_ch, bool keep,
                      const struct conv_in &v) {
    const int taps = (int)a.taps;
    float s = v.tap[0] * v.x;
    CU_UNROLL
    for (int back = 1; back < TAPS; back++)
        if (back < taps) s = fmaf(v.tap[back], v.past[back], s);
    if (keep) ring[slot * n_ch + c] = v.x;
    if (a.conv_bias) s += v.bias;
    return s * cu_sigmoid(s);
}
/* Convolves the current token's queries and keys of key head hk, and its values starting at j0. */
template <int TAPS, class X>
CU_DEV void conv_token(const struct cu_delta &a, const struct cu_seg &seg, int hk, int h, int j0,
                       int n_ch, bool keeps, X &x) {
    const int dk = (int)a.k_dim, n_hk = (int)a.n_k_heads, tid = (int)threadIdx.x;
    const int slot = (int)((uint32_t)seg.pos % (uint32_t)a.taps);
    const int vc = 2 * n_hk * dk + h * (int)a.v_dim + j0 + tid;
    const bool has_v = tid < SLICE && j0 + tid < (int)a.v_dim;
    float *ring = seg.state + a.ring_at;
    struct conv_in v = {};
    if (has_v) conv_load<TAPS>(a, ring, slot, vc, n_ch, v);
    for (int i = tid; i < 2 * dk; i += BLOCK) { /* half of the threads handle keys */
        const bool is_q = i < dk;
        const int at = is_q ? i : i - dk, c = (is_q ? hk : n_hk + hk) * dk + at;
        struct conv_in qk;
        conv_load<TAPS>(a, ring, slot, c, n_ch, qk);
        const float r = conv_end<TAPS>(a, ring, slot, c, n_ch, keeps, qk);
        if (is_q)
            x.q[0][at] = r;
        else
            x.k[0][at] = r;
    }
    if (has_v) x.v[0][tid] = conv_end<TAPS>(a, ring, slot, vc, n_ch, true, v);
}

/* ---- delta rule ---- */

struct alignas(16) tokens { /* per block, in shared memory; read four floats at a time */
    float q[T][CU_MOST_DELTA_KEY], k[T][CU_MOST_DELTA_KEY], v[T][SLICE];
    float kq[T], decay[T], beta[T];
};

/* Normalizes one token's query and key and computes their product; a warp calls it. */
CU_DEV void norm_qk(const struct cu_delta &a, struct tokens &x, int t, int lane) {
    const int n = (int)a.k_dim;
    float qq = 0.0f, kk = 0.0f, kq = 0.0f;
    for (int i = lane; i < n; i += 32) {
        qq = fmaf(x.q[t][i], x.q[t][i], qq);
        kk = fmaf(x.k[t][i], x.k[t][i], kk);
    }
    const float rq = a.scale / sqrtf(cu_warp_sum(qq) + a.eps);
    const float rk = 1.0f / sqrtf(cu_warp_sum(kk) + a.eps);
    for (int i = lane; i < n; i += 32) {
        const float q = x.q[t][i] * rq, k = x.k[t][i] * rk;
        x.q[t][i] = q;
        x.k[t][i] = k;
        kq = fmaf(q, k, kq);
    }
    kq = cu_warp_sum(kq);
    if (lane == 0) x.kq[t] = kq;
}
CU_DEV void gates(const struct cu_delta &a, struct tokens &x, int t, int64_t row, int h) {
    x.beta[t] = cu_sigmoid(*ch_beta(a, row, h));
    x.decay[t] = expf(a.a[h] * softplus(*ch_alpha(a, row, h) + a.dt[h]));
}

/* Runs one token on this thread's part of row j, values 32 i + 4 lane ... + 3. All LANES threads of
 * the row return o. */
template <int F4>
CU_DEV float step(float4 m[F4], const struct tokens &x, int t, int l, float v, int k_dim) {
    float p = 0.0f, r = 0.0f;
    CU_UNROLL
    for (int i = 0; i < F4; i++)
        if (32 * i + 4 * l < k_dim) {
            const float4 k = *(const float4 *)(const void *)&x.k[t][32 * i + 4 * l];
            const float4 q = *(const float4 *)(const void *)&x.q[t][32 * i + 4 * l];
            p = fmaf(m[i].x, k.x, p), p = fmaf(m[i].y, k.y, p);
            p = fmaf(m[i].z, k.z, p), p = fmaf(m[i].w, k.w, p);
            r = fmaf(m[i].x, q.x, r), r = fmaf(m[i].y, q.y, r);
            r = fmaf(m[i].z, q.z, r), r = fmaf(m[i].w, q.w, r);
        }
    for (int d = LANES / 2; d > 0; d /= 2) {
        p += cu_shfl_xor(p, d);
        r += cu_shfl_xor(r, d);
    }
    const float a = x.decay[t], d = x.beta[t] * (v - a * p);
    CU_UNROLL
    for (int i = 0; i < F4; i++)
        if (32 * i + 4 * l < k_dim) {
            const float4 k = *(const float4 *)(const void *)&x.k[t][32 * i + 4 * l];
            m[i].x = fmaf(a, m[i].x, d * k.x);
            m[i].y = fmaf(a, m[i].y, d * k.y);
            m[i].z = fmaf(a, m[i].z, d * k.z);
            m[i].w = fmaf(a, m[i].w, d * k.w);
        }
    return fmaf(a, r, x.kq[t] * d);
}

template <int F4>
CU_DEV void load_state(const float *row, bool there, int l, int k_dim, float4 m[F4]) {
    CU_UNROLL
    for (int i = 0; i < F4; i++)
        m[i] = there && 32 * i + 4 * l < k_dim
                   ? *(const float4 *)(const void *)(row + 32 * i + 4 * l)
                   : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}
template <int F4>
CU_DEV void store_state(float *row, bool there, int l, int k_dim, const float4 m[F4]) {
    CU_UNROLL
    for (int i = 0; i < F4; i++)
        if (there && 32 * i + 4 * l < k_dim) *(float4 *)(void *)(row + 32 * i + 4 * l) = m[i];
}

/* Runs the delta rule. The grid is (slices of rows, value heads, segments). */
template <int F4> CU_KERNEL __launch_bounds__(BLOCK) delta_rows(struct cu_delta a) {
    CU_SHARED(struct tokens, x, [1]);
    const int h = (int)blockIdx.y, hk = ch_key_head(a, h), j0 = (int)blockIdx.x * SLICE;
    const int l = (int)threadIdx.x % LANES, j = j0 + (int)threadIdx.x / LANES;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int dk = (int)a.k_dim, dv = (int)a.v_dim;
    const int64_t ld = 2 * a.n_k_heads * a.k_dim + a.n_v_heads * a.v_dim;
    const bool there = j < dv;
    const struct cu_seg seg = a.rows.seg[blockIdx.z];
    float *row = seg.state + a.state_at + ((int64_t)h * dv + (there ? j : 0)) * dk;
    const int64_t end = seg.row + seg.n;
    float4 m[F4];
    load_state<F4>(row, there, l, dk, m);
    for (int64_t t0 = seg.row; t0 < end; t0 += T) {
        const int n = end - t0 < T ? (int)(end - t0) : T;
        __syncthreads();
        for (int t = warp; t < n; t += WARPS) {
            const float *u = a.u + (t0 + t) * ld;
            for (int i = lane; i < dk; i += 32) {
                x[0].q[t][i] = u[hk * dk + i];
                x[0].k[t][i] = u[(a.n_k_heads + hk) * dk + i];
            }
            if (j0 + lane < dv) x[0].v[t][lane] = u[2 * a.n_k_heads * dk + h * dv + j0 + lane];
            cu_syncwarp();
            norm_qk(a, x[0], t, lane);
            if (lane == 0) gates(a, x[0], t, t0 + t, h);
        }
        __syncthreads();
        for (int t = 0; t < n; t++) {
            const float o = step<F4>(m, x[0], t, l, there ? x[0].v[t][j - j0] : 0.0f, dk);
            if (there && l == 0) a.out[((t0 + t) * a.n_v_heads + h) * dv + j] = o;
        }
    }
    store_state<F4>(row, there, l, dk, m);
}

/* Runs one token, with the convolution before it and the gated norm after it. The last block of a
 * head to finish normalises all of the head's rows. */
template <int F4> CU_KERNEL __launch_bounds__(BLOCK) delta_token(struct cu_delta a) {
    CU_SHARED(struct tokens, x, [1]);
    CU_SHARED(int, is_last, [1]);
    CU_SHARED(float, red, [32]);
    const int h = (int)blockIdx.y, n_hk = (int)a.n_k_heads, hk = ch_key_head(a, h);
    const int j0 = (int)blockIdx.x * SLICE, l = (int)threadIdx.x % LANES;
    const int j = j0 + (int)threadIdx.x / LANES, dk = (int)a.k_dim, dv = (int)a.v_dim;
    const int64_t n_ch = 2 * a.n_k_heads * a.k_dim + a.n_v_heads * a.v_dim;
    const bool first = a.grouped ? h % (int)(a.n_v_heads / n_hk) == 0 : h < n_hk;
    const bool there = j < dv, keeps = first && blockIdx.x == 0; /* one block per k head */
    float4 m[F4];
    cu_wait_before();
    const struct cu_seg seg = a.rows.seg[0];
    float *row = seg.state + a.state_at + ((int64_t)h * dv + (there ? j : 0)) * dk;
    load_state<F4>(row, there, l, dk, m);
    if (a.taps <= 4)
        conv_token<4>(a, seg, hk, h, j0, (int)n_ch, keeps, x[0]);
    else
        conv_token<CU_MOST_TAPS>(a, seg, hk, h, j0, (int)n_ch, keeps, x[0]);
    if (threadIdx.x == BLOCK - 1) gates(a, x[0], 0, 0, h);
    __syncthreads();
    if (threadIdx.x < 32) norm_qk(a, x[0], 0, (int)threadIdx.x);
    __syncthreads();
    const float o = step<F4>(m, x[0], 0, l, there ? x[0].v[0][j - j0] : 0.0f, dk);
    if (there && l == 0) a.out[(int64_t)h * dv + j] = o;
    store_state<F4>(row, there, l, dk, m);
    if (!cu_is_last(&a.arrived[h], (int)gridDim.x, is_last)) return;
    float *out = a.out + (int64_t)h * dv;
    const float *z = a.z + (int64_t)h * dv;
    /* Loads the values of a thread's first row early; usually it is the only one. */
    const int i0 = (int)threadIdx.x;
    const float v0 = i0 < dv ? cu_ldcg(&out[i0]) : 0.0f, z0 = i0 < dv ? z[i0] : 0.0f;
    const float n0 = i0 < dv ? a.norm[i0] : 0.0f;
    float s = fmaf(v0, v0, 0.0f);
    for (int i = i0 + BLOCK; i < dv; i += BLOCK) {
        const float v = cu_ldcg(&out[i]);
        s = fmaf(v, v, s);
    }
    const float r = 1.0f / sqrtf(cu_block_sum(s, red) / (float)dv + a.norm_eps);
    for (int i = i0; i < dv; i += BLOCK) { /* with yq, whole warps: dv % 32 == 0 */
        const float of = i == i0 ? v0 : cu_ldcg(&out[i]), zi = i == i0 ? z0 : z[i];
        const float v = of * r * (i == i0 ? n0 : a.norm[i]) * (zi * cu_sigmoid(zi));
        out[i] = v;
        if (a.yq) cu_act_store((uint8_t *)a.yq, a.n_v_heads * dv, (h * dv + i) / 32, v);
    }
}

/* Runs the delta rule over all rows and updates the states. */
int cu_delta_rows(struct cu_stream *s, const struct cu_delta *a, struct err *e) {
    const unsigned n_segs = (unsigned)a->rows.n_segs;
    dim3 grid((unsigned)div_up(a->v_dim, SLICE), (unsigned)a->n_v_heads, n_segs);
    TRY(cu_check(CU_DELTA_KEY, a->k_dim, e));
    if (n_segs < 1) return 0;
    if (a->chunked && a->k_dim == CH_DIM && a->v_dim % CH_ROWS == 0) {
        CU_SMEM(e, delta_chunks, sizeof(struct chunk));
        grid.x = (unsigned)(a->v_dim / CH_ROWS);
        CU_LAUNCH(e, delta_chunks, grid, CH_BLOCK, sizeof(struct chunk), s, *a);
        return 0;
    }
    if (a->k_dim <= 64)
        CU_LAUNCH(e, delta_rows<2>, grid, BLOCK, 0, s, *a);
    else if (a->k_dim <= 128)
        CU_LAUNCH(e, delta_rows<4>, grid, BLOCK, 0, s, *a);
    else
        CU_LAUNCH(e, delta_rows<8>, grid, BLOCK, 0, s, *a);
    return 0;
}

/* Runs convolution, delta rule and norm for sequences of one row each. */
int cu_delta_token(struct cu_stream *s, const struct cu_delta *a, struct err *e) {
    const dim3 grid((unsigned)div_up(a->v_dim, SLICE), (unsigned)a->n_v_heads);
    TRY(cu_check(CU_DELTA_KEY, a->k_dim, e));
    TRY(cu_check(CU_TAPS, a->taps, e));
    if (a->n_v_heads < a->n_k_heads) /* some key channels would never be stored in the ring */
        return err_set(e, ERR_USAGE, "CUDA: fewer value heads than key heads");
    if (a->k_dim <= 64)
        CU_LAUNCH_EARLY(e, delta_token<2>, grid, BLOCK, 0, s, *a);
    else if (a->k_dim <= 128)
        CU_LAUNCH_EARLY(e, delta_token<4>, grid, BLOCK, 0, s, *a);
    else
        CU_LAUNCH_EARLY(e, delta_token<8>, grid, BLOCK, 0, s, *a);
    return 0;
}
