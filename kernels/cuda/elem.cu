// SPDX-License-Identifier: MIT
/* kernels/cuda/elem.cu - norms, residuals and gates: row-wise and element-wise operators. Formulas:
 * models/graph.h.
 *
 * Each value is read once and written once; a norm reads its row twice, the second time from
 * cache. Sums are f32, per thread and then as a tree, so the bits depend only on the row length. */
#include "kernels/cuda/last.cuh"

enum { BLOCK = 256, WARP_ROW = 512 }; /* rows up to WARP_ROW values: a warp each */

/* ---- norms ---- */

/* Computes y = rms(x) * w [* silu(z)]. y may be x, because a thread reads its values before it
 * writes them. w has values for `per` rows, used in turn. */
CU_KERNEL __launch_bounds__(BLOCK) rms_warp(const float *x, const float *w, const float *z,
                                            float *y, int64_t n_rows, int n, int per, float eps) {
    const int lane = (int)threadIdx.x % 32;
    int64_t row = (int64_t)blockIdx.x * (BLOCK / 32) + threadIdx.x / 32;
    const bool there = row < n_rows;
    if (!there) row = 0; /* all lanes take part in the sum */
    const float *xr = x + row * n;
    float s = 0;
    for (int i = lane; i < n; i += 32) s = fmaf(xr[i], xr[i], s);
    const float r = 1.0f / sqrtf(cu_warp_sum(s) / (float)n + eps);
    if (!there) return;
    for (int i = lane; i < n; i += 32) {
        float v = xr[i] * r;
        if (w) v *= w[row % per * n + i];
        if (z) v *= z[row * n + i] * cu_sigmoid(z[row * n + i]);
        y[row * n + i] = v;
    }
}

enum { NORM_HELD = 8 }; /* values of a thread kept in registers */

/* Computes a row of struct cu_norm with a block of BLOCK threads. red is 32 floats of shared
 * memory. y may be any of the inputs, because the whole row is read before any of it is written. */
CU_DEV void norm_row(const struct cu_norm &j, int64_t row, float *red) {
    const int n = (int)j.n, d = (int)j.d;
    const int64_t at = row * n;
    const float *a = j.a + at, *x = j.x ? j.x + at : NULL, *res = j.res ? j.res + at : NULL;
    float g = 0, s = 0, held[NORM_HELD], w[NORM_HELD];
    if (j.x) {
        const float *h = j.h + row * d;
        for (int i = (int)threadIdx.x; i < d; i += BLOCK) g = fmaf(j.gate[i], cu_ldcg(&h[i]), g);
        g = cu_sigmoid(cu_block_sum(g, red));
    }
    const bool all_held = n <= NORM_HELD * BLOCK;
    for (int i0 = (int)threadIdx.x; i0 < n; i0 += NORM_HELD * BLOCK) {
        float xs[NORM_HELD], rs[NORM_HELD]; /* all loads before the first store */
        CU_UNROLL
        for (int c = 0; c < NORM_HELD; c++) {
            const int i = i0 + c * BLOCK;
            held[c] = i < n ? cu_ldcg(&a[i]) : 0.0f;
            xs[c] = x && i < n ? cu_ldcg(&x[i]) : 0.0f;
            rs[c] = res && i < n ? cu_ldcg(&res[i]) : 0.0f;
            if (all_held) w[c] = j.w && i < n ? cu_ldg(&j.w[i]) : 1.0f;
        }
        CU_UNROLL
        for (int c = 0; c < NORM_HELD; c++) {
            const int i = i0 + c * BLOCK;
            if (x) held[c] = fmaf(xs[c], g, held[c]);
            if (res) held[c] = rs[c] + held[c];
            if (j.sum && i < n) j.sum[at + i] = held[c];
        }
        CU_UNROLL
        for (int c = 0; c < NORM_HELD; c++) s = fmaf(held[c], held[c], s);
    }
    const float r = 1.0f / sqrtf(cu_block_sum(s, red) / (float)n + j.eps);
    const float *t = j.sum ? j.sum + at : a;
    float *y = j.y + at;
    uint8_t *yq = j.yq ? (uint8_t *)j.yq + row * CU_ACT_BYTES(n) : NULL;
    for (int i0 = (int)threadIdx.x; i0 < n; i0 += NORM_HELD * BLOCK) {
        CU_UNROLL
        for (int c = 0; c < NORM_HELD; c++) {
            const int i = i0 + c * BLOCK;
            if (!all_held) {
                held[c] = i < n ? cu_ldcg(&t[i]) : 0.0f;
                w[c] = j.w && i < n ? j.w[i] : 1.0f;
            }
            held[c] *= r;
            if (j.w) held[c] *= w[c];
        }
        CU_UNROLL
        for (int c = 0; c < NORM_HELD; c++)
            if (i0 + c * BLOCK < n) y[i0 + c * BLOCK] = held[c];
        if (yq) /* whole warps: n is a multiple of 32 */
            cu_act_store_each<NORM_HELD>(yq, n, i0 / 32, BLOCK / 32, n / 32, held);
    }
}

/* Computes the rows of struct cu_norm, a block per row. */
CU_KERNEL __launch_bounds__(BLOCK) norm_rows(struct cu_norm j) {
    CU_SHARED(float, red, [32]);
    cu_wait_before();
    norm_row(j, blockIdx.x, red);
}
/* Computes the norm of n_rows rows after adding the terms that `a` describes. */
int cu_norm_rows(struct cu_stream *s, const struct cu_norm *a, int64_t n_rows, struct err *e) {
    if (n_rows > 0) CU_LAUNCH_EARLY(e, norm_rows, (unsigned)n_rows, BLOCK, 0, s, *a);
    return 0;
}

/* Normalizes rows of n values. w may be NULL; wn: number of weights, which repeat. */
int cu_rms(struct cu_stream *s, const float *x, const float *w, float *y, int64_t n_rows, int64_t n,
           int64_t wn, float eps, struct err *e) {
    if (n_rows < 1) return 0;
    if (n <= WARP_ROW || wn > n)
        CU_LAUNCH(e, rms_warp, (unsigned)div_up(n_rows, BLOCK / 32), BLOCK, 0, s, x, w,
                  (const float *)NULL, y, n_rows, (int)n, wn > n ? (int)(wn / n) : 1, eps);
    else {
        struct cu_norm j = {};
        j.a = x;
        j.w = w;
        j.y = y;
        j.n = n;
        j.eps = eps;
        return cu_norm_rows(s, &j, n_rows, e);
    }
    return 0;
}

/* Queues y = rms(x; w, eps) * silu(z) for n_rows rows of n values. */
int cu_gated_rms(struct cu_stream *s, const float *x, const float *w, const float *z, float *y,
                 int64_t n_rows, int64_t n, float eps, struct err *e) {
    if (n_rows < 1) return 0;
    CU_LAUNCH(e, rms_warp, (unsigned)div_up(n_rows, BLOCK / 32), BLOCK, 0, s, x, w, z, y, n_rows,
              (int)n, 1, eps);
    return 0;
}

/* Computes LayerNorm, a block per group. Uses two sums, because the mean may be large compared
 * to the spread. y may be x, because a thread reads its values before it writes them. */
CU_KERNEL __launch_bounds__(BLOCK) layer_norm_rows(const float *x, const float *w, const float *b,
                                                   float *y, int64_t n, int64_t wn, float eps) {
    CU_SHARED(float, red, [32]);
    const int64_t row = blockIdx.x, at = row * n, w_at = at % wn;
    float s = 0, v = 0;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) s += x[at + i];
    const float mean = cu_block_sum(s, red) / (float)n;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK)
        v = fmaf(x[at + i] - mean, x[at + i] - mean, v);
    const float r = 1.0f / sqrtf(cu_block_sum(v, red) / (float)n + eps);
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) {
        float o = (x[at + i] - mean) * r;
        if (w) o *= w[w_at + i];
        if (b) o += b[w_at + i];
        y[at + i] = o;
    }
}
/* Normalizes groups of n values. w and b may be NULL; wn: their length, after which they repeat. */
int cu_layer_norm(struct cu_stream *s, const float *x, const float *w, const float *b, float *y,
                  int64_t n_groups, int64_t n, int64_t wn, float eps, struct err *e) {
    if (n_groups > 0)
        CU_LAUNCH(e, layer_norm_rows, (unsigned)n_groups, BLOCK, 0, s, x, w, b, y, n, wn, eps);
    return 0;
}

/* ---- value by value ---- */

CU_DEV int64_t my_value(void) {
    return (int64_t)blockIdx.x * BLOCK + threadIdx.x;
}
/* Returns the CUDA blocks for n values. */
static unsigned blocks_of(int64_t n) {
    return (unsigned)div_up(n, BLOCK);
}

CU_KERNEL add_values(const float *a, const float *b, float *dst, int64_t n) {
    const int64_t i = my_value();
    if (i < n) dst[i] = a[i] + b[i];
}
/* Queues dst = a + b for n values. */
int cu_add(struct cu_stream *s, const float *a, const float *b, float *dst, int64_t n,
           struct err *e) {
    if (n > 0) CU_LAUNCH(e, add_values, blocks_of(n), BLOCK, 0, s, a, b, dst, n);
    return 0;
}

CU_KERNEL bias_values(float *x, const float *by, int64_t total, int64_t n) {
    const int64_t i = my_value();
    if (i < total) x[i] += by[i % n];
}
/* Adds by [n] to each row of x; total: number of values in x. */
int cu_add_bias(struct cu_stream *s, float *x, const float *by, int64_t total, int64_t n,
                struct err *e) {
    if (total > 0) CU_LAUNCH(e, bias_values, blocks_of(total), BLOCK, 0, s, x, by, total, n);
    return 0;
}

CU_KERNEL sigmoid_values(float *x, const float *g, int64_t n) {
    const int64_t i = my_value();
    if (i < n) x[i] *= cu_sigmoid(g[i]);
}
/* Queues x *= sigmoid(g) for n values. */
int cu_sigmoid_mul(struct cu_stream *s, float *x, const float *g, int64_t n, struct err *e) {
    if (n > 0) CU_LAUNCH(e, sigmoid_values, blocks_of(n), BLOCK, 0, s, x, g, n);
    return 0;
}

CU_KERNEL mul_values(float *x, const float *g, int64_t n, int64_t each, int f) {
    const int64_t i = my_value();
    if (i >= n) return;
    float by = g[i / each];
    if (f == CU_FACTOR_SIGMOID) by = cu_sigmoid(by);
    if (f == CU_FACTOR_SOFTPLUS) by = fmaxf(by, 0.0f) + log1pf(expf(-fabsf(by)));
    x[i] *= by;
}
/* Multiplies x [n] by a factor computed from g; each: values per factor, f: CU_FACTOR_... */
int cu_mul(struct cu_stream *s, float *x, const float *g, int64_t n, int64_t each, int f,
           struct err *e) {
    if (n > 0) CU_LAUNCH(e, mul_values, blocks_of(n), BLOCK, 0, s, x, g, n, each, f);
    return 0;
}

CU_KERNEL clamp_values(float *x, int64_t n, float by) {
    const int64_t i = my_value();
    if (i < n) x[i] = fmaxf(-by, fminf(x[i], by));
}
/* Clamps n values to +-by. */
int cu_clamp(struct cu_stream *s, float *x, int64_t n, float by, struct err *e) {
    if (n > 0) CU_LAUNCH(e, clamp_values, blocks_of(n), BLOCK, 0, s, x, n, by);
    return 0;
}

CU_KERNEL fit_values(const float *x, float *dst, int64_t n, int64_t from, int64_t to) {
    const int64_t i = my_value();
    if (i < n) dst[i] = i % to < from ? x[i / to * from + i % to] : 0.0f;
}
/* Copies heads of `from` values to heads of `to`, cut or padded with zeros. */
int cu_fit_heads(struct cu_stream *s, const float *x, float *dst, int64_t n, int64_t from,
                 int64_t to, struct err *e) {
    if (n > 0) CU_LAUNCH(e, fit_values, blocks_of(n), BLOCK, 0, s, x, dst, n, from, to);
    return 0;
}

CU_KERNEL swiglu_values(const float *gate, const float *up, float *dst, int64_t n) {
    const int64_t i = my_value();
    if (i < n) dst[i] = gate[i] * cu_sigmoid(gate[i]) * up[i];
}
/* Queues dst = silu(gate) * up for n values. */
int cu_swiglu(struct cu_stream *s, const float *gate, const float *up, float *dst, int64_t n,
              struct err *e) {
    if (n > 0) CU_LAUNCH(e, swiglu_values, blocks_of(n), BLOCK, 0, s, gate, up, dst, n);
    return 0;
}

/* Returns gelu(x) = x/2 (1 + tanh(u)) = x cu_sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3). */
CU_DEV float gelu(float x) {
    return x * cu_sigmoid(1.59576912160573f * (x + 0.044715f * (x * x * x)));
}
CU_KERNEL geglu_values(const float *gate, const float *up, float *dst, int64_t total, int64_t n,
                       int64_t up_ld) {
    const int64_t i = my_value();
    if (i < total) dst[i] = gelu(gate[i]) * up[i / n * up_ld + i % n];
}
/* Queues dst = gelu(gate) * up for n_rows rows of n values; up_ld: stride between rows of up. */
int cu_geglu(struct cu_stream *s, const float *gate, const float *up, float *dst, int64_t n_rows,
             int64_t n, int64_t up_ld, struct err *e) {
    const int64_t total = n_rows * n;
    if (total > 0)
        CU_LAUNCH(e, geglu_values, blocks_of(total), BLOCK, 0, s, gate, up, dst, total, n, up_ld);
    return 0;
}

CU_KERNEL act_values(const float *x, int64_t x_ld, const float *up, int64_t up_ld, float *dst,
                     int64_t total, int64_t n, int act, struct cu_xielu a) {
    const int64_t i = my_value(), row = i / n, c = i % n;
    if (i >= total) return;
    const float v = x[row * x_ld + c];
    float f = 0;
    if (act == CU_ACT_SILU) f = v * cu_sigmoid(v);
    if (act == CU_ACT_GELU) f = gelu(v);
    if (act == CU_ACT_GELU_ERF) f = 0.5f * v * (1.0f + erff(0.70710678118655f * v));
    if (act == CU_ACT_RELU2) f = v > 0 ? v * v : 0.0f;
    if (act == CU_ACT_TANH) f = tanhf(v);
    if (act == CU_ACT_CLAMPED) {
        const float g = fminf(v, a.eps), u = up ? up[row * up_ld + c] : 0.0f;
        dst[i] = g * cu_sigmoid(a.p * g) * (fmaxf(-a.eps, fminf(u, a.eps)) + 1.0f);
        return;
    }
    if (act == CU_ACT_XIELU)
        f = a.b * v + (v > 0 ? a.p * v * v : a.n * (expm1f(fminf(v, a.eps)) - v));
    dst[i] = up ? f * up[row * up_ld + c] : f;
}
/* Computes dst = act(x), times `up` unless that is NULL; act: CU_ACT_... */
int cu_act_rows(struct cu_stream *s, const float *x, int64_t x_ld, const float *up, int64_t up_ld,
                float *dst, int64_t n_rows, int64_t n, int act, struct cu_xielu a, struct err *e) {
    const int64_t total = n_rows * n;
    if (total > 0)
        CU_LAUNCH(e, act_values, blocks_of(total), BLOCK, 0, s, x, x_ld, up, up_ld, dst, total, n,
                  act, a);
    return 0;
}

CU_KERNEL moe_act_values(struct cu_moe_act a) {
    const int64_t i = my_value();
    if (i >= a.n_pairs * a.n) return;
    const int64_t at = (int64_t)a.ids[i / a.n] * a.n + i % a.n;
    const float by = a.p ? a.p[i / a.n] : 1.0f;
    float g = by * a.h[i] + (a.gate_bias ? a.gate_bias[at] : 0.0f);
    float u = by * a.up[i] + (a.up_bias ? a.up_bias[at] : 0.0f);
    if (a.late) {
        a.h[i] = fminf(g * cu_sigmoid(g), a.limit) * fmaxf(-a.limit, fminf(u, a.limit));
    } else if (a.limit > 0) {
        g = fminf(g, a.limit);
        u = fmaxf(-a.limit, fminf(u, a.limit));
        a.h[i] = g * cu_sigmoid(a.alpha * g) * (u + 1.0f);
    } else
        a.h[i] = cu_gate(g, a.gelu) * u;
}
int cu_moe_act(struct cu_stream *s, const struct cu_moe_act *a, struct err *e) {
    const int64_t total = a->n_pairs * a->n;
    if (total > 0) CU_LAUNCH(e, moe_act_values, blocks_of(total), BLOCK, 0, s, *a);
    return 0;
}

CU_KERNEL moe_bias_values(float *y, int64_t ldy, const float *bias, const int32_t *ids,
                          const float *p, int64_t total, int64_t n_used, int64_t n) {
    const int64_t i = my_value(), t = i / n, c = i % n;
    if (i >= total) return;
    float sum = 0;
    for (int64_t u = t * n_used; u < (t + 1) * n_used; u++)
        sum = fmaf(p[u], bias[(int64_t)ids[u] * n + c], sum);
    y[t * ldy + c] += sum;
}
/* Adds the experts' output biases, weighted by p, to y. */
int cu_moe_bias(struct cu_stream *s, float *y, int64_t ldy, const float *bias, const int32_t *ids,
                const float *p, int64_t n_tok, int64_t n_used, int64_t n, struct err *e) {
    const int64_t total = n_tok * n;
    if (total > 0)
        CU_LAUNCH(e, moe_bias_values, blocks_of(total), BLOCK, 0, s, y, ldy, bias, ids, p, total,
                  n_used, n);
    return 0;
}

CU_KERNEL copy_values(const float *x, int64_t x_ld, float *dst, int64_t total, int64_t n) {
    const int64_t i = my_value();
    if (i < total) dst[i] = x[i / n * x_ld + i % n];
}
/* Copies the first n values of each row. */
int cu_copy_rows(struct cu_stream *s, const float *x, int64_t x_ld, float *dst, int64_t n_rows,
                 int64_t n, struct err *e) {
    const int64_t total = n_rows * n;
    if (total > 0) CU_LAUNCH(e, copy_values, blocks_of(total), BLOCK, 0, s, x, x_ld, dst, total, n);
    return 0;
}

CU_KERNEL split_values(const float *x, float *q, float *gate, int64_t total, int64_t n) {
    const int64_t i = my_value(), row = i / n, c = i % n;
    if (i >= total) return;
    q[i] = x[2 * row * n + c];
    gate[i] = x[(2 * row + 1) * n + c];
}
/* Splits rows of 2 n values into q and gate. */
int cu_split_gate(struct cu_stream *s, const float *x, float *q, float *gate, int64_t n_rows,
                  int64_t n, struct err *e) {
    const int64_t total = n_rows * n;
    if (total > 0) CU_LAUNCH(e, split_values, blocks_of(total), BLOCK, 0, s, x, q, gate, total, n);
    return 0;
}

CU_KERNEL scale_values(float *x, int64_t n, float scale, const float *by, int64_t n_by) {
    const int64_t i = my_value();
    if (i < n) x[i] *= by ? scale * by[i % n_by] : scale;
}
/* Multiplies x [n] by scale and, unless NULL, by by[i % n_by]. */
int cu_scale(struct cu_stream *s, float *x, int64_t n, float scale, const float *by, int64_t n_by,
             struct err *e) {
    if (n > 0) CU_LAUNCH(e, scale_values, blocks_of(n), BLOCK, 0, s, x, n, scale, by, n_by);
    return 0;
}

CU_KERNEL cap_values(float *x, int64_t n, float cap) {
    const int64_t i = my_value();
    if (i < n) x[i] = cap * tanhf(x[i] / cap);
}
/* Queues x = cap * tanh(x / cap) for n values. */
int cu_softcap(struct cu_stream *s, float *x, int64_t n, float cap, struct err *e) {
    if (n > 0) CU_LAUNCH(e, cap_values, blocks_of(n), BLOCK, 0, s, x, n, cap);
    return 0;
}

/* Adds x * cu_sigmoid(w . h) to dst, a block per row. */
CU_KERNEL __launch_bounds__(BLOCK) gate_add_rows(float *dst, const float *x, const float *w,
                                                 const float *h, int64_t n, int64_t d) {
    CU_SHARED(float, red, [32]);
    const int64_t row = blockIdx.x;
    float g = 0;
    for (int64_t i = threadIdx.x; i < d; i += BLOCK) g = fmaf(w[i], h[row * d + i], g);
    g = cu_sigmoid(cu_block_sum(g, red));
    for (int64_t i = threadIdx.x; i < n; i += BLOCK)
        dst[row * n + i] = fmaf(x[row * n + i], g, dst[row * n + i]);
}
/* Adds x * sigmoid(w . h) to dst, row by row; w and h have d values. */
int cu_gate_add(struct cu_stream *s, float *dst, const float *x, const float *w, const float *h,
                int64_t n_rows, int64_t n, int64_t d, struct err *e) {
    if (n_rows > 0) CU_LAUNCH(e, gate_add_rows, (unsigned)n_rows, BLOCK, 0, s, dst, x, w, h, n, d);
    return 0;
}
