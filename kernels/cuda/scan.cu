// SPDX-License-Identifier: MIT
/* kernels/cuda/scan.cu - recurrent layers other than the delta rule: the short convolution, the
 * scans of Mamba 2 and Mamba 1, Kimi delta attention. Formulas: models/ops.def.
 *
 * Scans: LANES threads per row of the state keep the row in registers over all tokens of a segment;
 * it is read and written once. The past products of the short convolution are in a ring, as in
 * delta.cu. */
#include "kernels/cuda/last.cuh"
#include "kernels/cuda/limits.h"

enum { BLOCK = 256, LANES = 8, ROWS = BLOCK / LANES, MAX_PER = CU_MOST_STATE / LANES };

CU_DEV float softplus(float x) {
    return x > 20.0f ? x : log1pf(expf(x));
}

/* ---- short convolution: a thread per channel of a segment ---- */

CU_KERNEL __launch_bounds__(BLOCK) short_conv(struct cu_short a) {
    const struct cu_seg seg = a.rows.seg[blockIdx.y];
    const int64_t c = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    const int taps = (int)a.taps;
    float *ring = seg.state + a.ring_at;
    if (c >= a.n_ch) return;
    for (int64_t t = 0; t < seg.n; t++) {
        const int64_t p = seg.pos + t;
        const float *u = a.u + (seg.row + t) * 3 * a.n_ch + c; /* b, c, x */
        const float now = u[0] * u[2 * a.n_ch];
        float s = a.w[c * taps + taps - 1] * now;
        for (int back = taps - 1; back > 0; back--) /* before position 0 the ring holds zeros */
            s = fmaf(a.w[c * taps + taps - 1 - back],
                     ring[((p - back) % taps + taps) % taps * a.n_ch + c], s);
        ring[p % taps * a.n_ch + c] = now;
        a.out[(seg.row + t) * a.n_ch + c] = u[a.n_ch] * s;
    }
}

/* Computes the gated short convolution and updates the ring of inputs. */
int cu_short_conv(struct cu_stream *s, const struct cu_short *a, struct err *e) {
    TRY(cu_check(CU_TAPS, a->taps, e));
    const dim3 grid((unsigned)div_up(a->n_ch, BLOCK), (unsigned)a->rows.n_segs);
    if (a->rows.n_segs < 1 || a->n_ch < 1) return 0;
    CU_LAUNCH(e, short_conv, grid, BLOCK, 0, s, *a);
    return 0;
}

/* ---- scans ---- */

CU_DEV float sum8(float v) {
    v += cu_shfl_xor(v, 4);
    v += cu_shfl_xor(v, 2);
    return v + cu_shfl_xor(v, 1);
}

/* Runs a scan. The grid is (rows of a head, heads, segments). A thread has PER values of a row, at
 * lane + LANES i. first: Mamba 1, which has one head and a separate decay for every value of the
 * state. */
template <int PER, bool first> CU_KERNEL __launch_bounds__(BLOCK) scan(struct cu_scan a) {
    const struct cu_seg seg = a.rows.seg[blockIdx.z];
    const int h = (int)blockIdx.y, l = (int)threadIdx.x % LANES;
    const int j = (int)blockIdx.x * ROWS + (int)threadIdx.x / LANES;
    const int dim = (int)a.k_dim, dv = (int)a.v_dim;
    const int jj = j < dv ? j : dv - 1, g = first ? 0 : h / (int)(a.n_heads / a.n_groups);
    float *row = seg.state + a.state_at + ((int64_t)h * dv + jj) * dim;
    const float skip = a.skip[first ? jj : h];
    float m[PER], rate[PER];
    CU_UNROLL
    for (int i = 0; i < PER; i++) {
        const int k = l + LANES * i;
        m[i] = k < dim ? row[k] : 0.0f;
        rate[i] = first && k < dim ? a.a[(int64_t)jj * dim + k] : 0.0f;
    }
    for (int64_t t = seg.row; t < seg.row + seg.n; t++) {
        const float x = a.x[t * a.x_ld + (int64_t)h * dv + jj];
        const float raw = a.dt[t * a.dt_ld + (first ? jj : h)];
        const float d = softplus(first ? raw : raw + a.dt_bias[h]);
        const float keep = first ? 0.0f : expf(a.a[h] * d), in = d * x;
        const float *b = a.b + t * a.bc_ld + (int64_t)g * dim, *c = b + a.n_groups * dim;
        float y = 0.0f;
        CU_UNROLL
        for (int i = 0; i < PER; i++) {
            const int k = l + LANES * i;
            if (k >= dim) continue;
            m[i] = fmaf(in, b[k], (first ? expf(d * rate[i]) : keep) * m[i]);
            y = fmaf(m[i], c[k], y);
        }
        y = sum8(y);
        if (l == 0 && j < dv) a.out[(t * a.n_heads + h) * dv + j] = fmaf(skip, x, y);
    }
    if (j >= dv) return;
    CU_UNROLL
    for (int i = 0; i < PER; i++)
        if (l + LANES * i < dim) row[l + LANES * i] = m[i];
}

/* Runs the state space scan over all rows and updates the states. */
int cu_scan_rows(struct cu_stream *s, const struct cu_scan *a, struct err *e) {
    const dim3 grid((unsigned)div_up(a->v_dim, ROWS), (unsigned)a->n_heads,
                    (unsigned)a->rows.n_segs);
    TRY(cu_check(CU_STATE, a->k_dim, e));
    if (a->rows.n_segs < 1) return 0;
    if (a->first && a->k_dim <= 2 * LANES)
        CU_LAUNCH(e, (scan<2, true>), grid, BLOCK, 0, s, *a);
    else if (a->first)
        CU_LAUNCH(e, (scan<MAX_PER, true>), grid, BLOCK, 0, s, *a);
    else if (a->k_dim <= 16 * LANES)
        CU_LAUNCH(e, (scan<16, false>), grid, BLOCK, 0, s, *a);
    else
        CU_LAUNCH(e, (scan<MAX_PER, false>), grid, BLOCK, 0, s, *a);
    return 0;
}

/* ---- Kimi delta attention ---- */

/* Computes the norms of query and key and the decays of the channels, a warp per token and head. */
CU_KERNEL __launch_bounds__(BLOCK) kda_ready(struct cu_kda a) {
    const int64_t i = (int64_t)blockIdx.x * (BLOCK / 32) + threadIdx.x / 32;
    const bool there = i < a.n_tok * a.n_heads; /* all lanes take part in the sums */
    const int64_t t = there ? i / a.n_heads : 0, h = there ? i % a.n_heads : 0;
    const int lane = (int)threadIdx.x % 32, dim = (int)a.k_dim;
    float *q = a.u + t * a.n_heads * (2 * dim + a.v_dim) + h * dim, *k = q + a.n_heads * dim;
    float *f = a.f + (t * a.n_heads + h) * dim;
    float qq = 0.0f, kk = 0.0f;
    for (int c = lane; c < dim; c += 32) {
        qq = fmaf(q[c], q[c], qq);
        kk = fmaf(k[c], k[c], kk);
    }
    const float rq = a.scale / sqrtf(cu_warp_sum(qq) + a.eps);
    const float rk = 1.0f / sqrtf(cu_warp_sum(kk) + a.eps);
    if (!there) return;
    for (int c = lane; c < dim; c += 32) {
        q[c] *= rq;
        k[c] *= rk;
        const float x = f[c] + a.dt[h * dim + c];
        f[c] = expf(a.bound < 0 ? a.bound * cu_sigmoid(a.a[h] * x) : a.a[h] * softplus(x));
    }
}

/* Runs Kimi delta attention. The grid is (rows of a head, heads, segments), as in scan. */
template <int PER> CU_KERNEL __launch_bounds__(BLOCK) kda_rows(struct cu_kda a) {
    const struct cu_seg seg = a.rows.seg[blockIdx.z];
    const int h = (int)blockIdx.y, l = (int)threadIdx.x % LANES;
    const int j = (int)blockIdx.x * ROWS + (int)threadIdx.x / LANES;
    const int dim = (int)a.k_dim, dv = (int)a.v_dim, jj = j < dv ? j : dv - 1;
    const int64_t ld = a.n_heads * (2 * dim + dv);
    float *row = seg.state + a.state_at + ((int64_t)h * dv + jj) * dim;
    float m[PER];
    CU_UNROLL
    for (int i = 0; i < PER; i++) m[i] = l + LANES * i < dim ? row[l + LANES * i] : 0.0f;
    for (int64_t t = seg.row; t < seg.row + seg.n; t++) {
        const float *q = a.u + t * ld + h * dim, *k = q + a.n_heads * dim;
        const float *decay = a.f + (t * a.n_heads + h) * dim;
        const float v = a.u[t * ld + 2 * a.n_heads * dim + (int64_t)h * dv + jj];
        float p = 0.0f, y = 0.0f;
        CU_UNROLL
        for (int i = 0; i < PER; i++) {
            const int c = l + LANES * i;
            if (c >= dim) continue;
            m[i] *= decay[c];
            p = fmaf(m[i], k[c], p);
        }
        const float d = cu_sigmoid(a.beta[t * a.n_heads + h]) * (v - sum8(p));
        CU_UNROLL
        for (int i = 0; i < PER; i++) {
            const int c = l + LANES * i;
            if (c >= dim) continue;
            m[i] = fmaf(d, k[c], m[i]);
            y = fmaf(m[i], q[c], y);
        }
        y = sum8(y);
        if (l == 0 && j < dv) a.out[(t * a.n_heads + h) * dv + j] = y;
    }
    if (j >= dv) return;
    CU_UNROLL
    for (int i = 0; i < PER; i++)
        if (l + LANES * i < dim) row[l + LANES * i] = m[i];
}

/* Runs Kimi delta attention over all rows and updates the states. */
int cu_kda_rows(struct cu_stream *s, const struct cu_kda *a, struct err *e) {
    const dim3 grid((unsigned)div_up(a->v_dim, ROWS), (unsigned)a->n_heads,
                    (unsigned)a->rows.n_segs);
    TRY(cu_check(CU_STATE, a->k_dim, e));
    if (a->rows.n_segs < 1 || a->n_tok < 1) return 0;
    CU_LAUNCH(e, kda_ready, (unsigned)div_up(a->n_tok * a->n_heads, BLOCK / 32), BLOCK, 0, s, *a);
    if (a->k_dim <= 16 * LANES)
        CU_LAUNCH(e, kda_rows<16>, grid, BLOCK, 0, s, *a);
    else
        CU_LAUNCH(e, kda_rows<MAX_PER>, grid, BLOCK, 0, s, *a);
    return 0;
}
