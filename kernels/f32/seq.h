// SPDX-License-Identifier: MIT
/* kernels/f32/seq.h - operators with a state that each token updates: causal convolution, gated
 * delta rule, Mamba scans. Included once by an ISA's seq.c, after its f8.h.
 *
 * conv_silu: 8 channels at a time stay in registers over all tokens (kernel width 4; ref handles
 * other widths and leftover channels). delta_rows: 4 rows of the state at a time stay in L1 over
 * all tokens and share the loads of k and q; 8 state values take one load, two FMAs for both dots,
 * one multiply, one FMA and one store. k.q is computed once per token and chunk of tokens. */
#include <math.h>

#include "kernels/f32/vexp.h"
#include "base/fp.h"
#include "kernels/ops.h"

static void conv4(float *u, int64_t ld, const float *w, const float *bias, float *state,
                  int64_t n_tok, int64_t n_ch) {
    const f8 first = bias ? f_load(bias) : f_set(0);
    f8 t[4], x0 = f_load(state), x1 = f_load(state + n_ch), x2 = f_load(state + 2 * n_ch);
    UNROLL for (int j = 0; j < 4; j++) t[j] =
        f_every_4th(w + j); /* columns of the 8 x 4 matrix of taps */
    for (int64_t i = 0; i < n_tok; i++, u += ld) {
        const f8 x3 = f_load(u);
        const f8 s = f_fma(t[3], x3, f_fma(t[2], x2, f_fma(t[1], x1, f_fma(t[0], x0, first))));
        f_store(u, f_mul(s, vsigmoid(s)));
        x0 = x1;
        x1 = x2;
        x2 = x3;
    }
    f_store(state, x0);
    f_store(state + n_ch, x1);
    f_store(state + 2 * n_ch, x2);
}

static void conv_silu(float *u, int64_t ld, const float *w, const float *bias, float *state,
                      int64_t n_tok, int64_t c0, int64_t c1, int64_t n_ch, int64_t k) {
    int64_t c = c0;
    if (k == 4)
        for (; c + 8 <= c1; c += 8)
            conv4(u + c, ld, w + c * k, bias ? bias + c : NULL, state + c, n_tok, n_ch);
    if (c < c1) {
        struct kern ref;
        kern_ref_f32(&ref);
        ref.conv_silu(u, ld, w, bias, state, n_tok, c, c1, n_ch, k);
    }
}

enum { TOK = 64 }; /* tokens whose k.q fits on the stack */

/* Runs one token on `rows` (1 or 4) rows of the state. dk is a multiple of 8. */
INLINE void delta_step(int rows, float *s, const float *q, const float *k, const float *v, float *o,
                       float a, float beta, float kq, int64_t dk) {
    f8 p[4], r[4], d[4];
    UNROLL for (int j = 0; j < rows; j++) p[j] = r[j] = f_set(0);
    for (int64_t i = 0; i < dk; i += 8) {
        const f8 kv = f_load(k + i), qv = f_load(q + i);
        UNROLL for (int j = 0; j < rows; j++) {
            const f8 sv = f_load(s + j * dk + i);
            p[j] = f_fma(sv, kv, p[j]);
            r[j] = f_fma(sv, qv, r[j]);
        }
    }
    UNROLL for (int j = 0; j < rows; j++) {
        const float dj = beta * __builtin_fmaf(-a, hsum(p[j]), v[j]);
        o[j] = __builtin_fmaf(kq, dj, a * hsum(r[j]));
        d[j] = f_set(dj);
    }
    const f8 av = f_set(a);
    for (int64_t i = 0; i < dk; i += 8) {
        const f8 kv = f_load(k + i);
        UNROLL for (int j = 0; j < rows; j++) {
            float *p_s = s + j * dk + i;
            f_store(p_s, f_fma(d[j], kv, f_mul(av, f_load(p_s))));
        }
    }
}

static void delta_rows(float *s, const float *q, const float *k, int64_t ldqk, const float *v,
                       int64_t ldv, float *o, int64_t ldo, const float *decay, const float *beta,
                       int64_t ldg, int64_t n_tok, int64_t dk, int64_t j0, int64_t j1) {
    if (dk % 8) {
        struct kern ref;
        kern_ref_f32(&ref);
        ref.delta_rows(s, q, k, ldqk, v, ldv, o, ldo, decay, beta, ldg, n_tok, dk, j0, j1);
        return;
    }
    for (int64_t t0 = 0; t0 < n_tok; t0 += TOK) {
        const int64_t t1 = n_tok < t0 + TOK ? n_tok : t0 + TOK;
        float kq[TOK];
        for (int64_t t = t0; t < t1; t++) kq[t - t0] = F32_OPS.dot(k + t * ldqk, q + t * ldqk, dk);
        int64_t j = j0;
        for (; j + 4 <= j1; j += 4)
            for (int64_t t = t0; t < t1; t++)
                delta_step(4, s + j * dk, q + t * ldqk, k + t * ldqk, v + t * ldv + j,
                           o + t * ldo + j, decay[t * ldg], beta[t * ldg], kq[t - t0], dk);
        for (; j < j1; j++)
            for (int64_t t = t0; t < t1; t++)
                delta_step(1, s + j * dk, q + t * ldqk, k + t * ldqk, v + t * ldv + j,
                           o + t * ldo + j, decay[t * ldg], beta[t * ldg], kq[t - t0], dk);
    }
}

/* Runs rows [r, r + rows) (1 or 2) of the backward pass; n_k is a multiple of 8. Returns the sum of
 * dy d over the rows. */
INLINE float delta_back_rows(int rows, struct kern_delta_back *j, int64_t r, const float *s,
                             float *z) {
    const int64_t n = j->n_k;
    f8 p[2], dd[2], zs[2], dk_z[2], dk_s[2], dq_s[2], e[2];
    float dyd = 0;
    UNROLL for (int h = 0; h < rows; h++) p[h] = dd[h] = zs[h] = f_set(0);
    for (int64_t i = 0; i < n; i += 8) {
        const f8 q = f_load(j->q + i), k = f_load(j->k + i);
        UNROLL for (int h = 0; h < rows; h++) {
            float *z_at = z + h * n + i;
            const f8 sv = f_load(s + h * n + i), zv = f_fma(f_set(j->dy[r + h]), q, f_load(z_at));
            f_store(z_at, zv);
            p[h] = f_fma(sv, k, p[h]);
            dd[h] = f_fma(zv, k, dd[h]);
            zs[h] = f_fma(zv, sv, zs[h]);
        }
    }
    UNROLL for (int h = 0; h < rows; h++) {
        const float ps = hsum(p[h]), dds = hsum(dd[h]), dy = j->dy[r + h], es = j->beta * dds;
        const float left = __builtin_fmaf(-j->decay, ps, j->v[r + h]), d = j->beta * left;
        j->ddecay += (double)hsum(zs[h]) - (double)es * (double)ps;
        j->dbeta += (double)dds * (double)left;
        j->dv[r + h] += es;
        dyd = __builtin_fmaf(dy, d, dyd);
        dk_z[h] = f_set(d);
        dk_s[h] = f_set(-j->decay * es);
        dq_s[h] = f_set(j->decay * dy);
        e[h] = f_set(es);
    }
    const f8 decay = f_set(j->decay);
    for (int64_t i = 0; i < n; i += 8) {
        const f8 k = f_load(j->k + i);
        f8 dq = f_load(j->dq + i), dk = f_load(j->dk + i);
        UNROLL for (int h = 0; h < rows; h++) {
            float *z_at = z + h * n + i;
            const f8 sv = f_load(s + h * n + i), zv = f_load(z_at);
            dq = f_fma(dq_s[h], sv, dq);
            dk = f_fma(dk_s[h], sv, f_fma(dk_z[h], zv, dk));
            f_store(z_at, f_mul(decay, f_fnma(e[h], k, zv)));
        }
        f_store(j->dq + i, dq);
        f_store(j->dk + i, dk);
    }
    return dyd;
}

static void delta_back(struct kern_delta_back *j, const float *s, float *z) {
    if (j->n_k % 8) {
        struct kern ref;
        kern_ref_f32(&ref);
        ref.delta_back(j, s, z);
        return;
    }
    float dyd = 0;
    int64_t r = 0;
    for (; r + 2 <= j->n_v; r += 2) dyd += delta_back_rows(2, j, r, s + r * j->n_k, z + r * j->n_k);
    if (r < j->n_v) dyd += delta_back_rows(1, j, r, s + r * j->n_k, z + r * j->n_k);
    for (int64_t i = 0; i < j->n_k; i += 8)
        f_store(j->dq + i, f_fma(f_set(dyd), f_load(j->k + i), f_load(j->dq + i)));
}

/* Runs one token on `rows` (1 or 4) rows of the state. dk is a multiple of 8. */
INLINE void kda_step(int rows, float *s, const float *q, const float *k, const float *v, float *o,
                     const float *decay, float beta, int64_t dk) {
    f8 p[4], y[4], d[4];
    UNROLL for (int j = 0; j < rows; j++) p[j] = y[j] = f_set(0);
    for (int64_t i = 0; i < dk; i += 8) {
        const f8 kv = f_load(k + i), a = f_load(decay + i);
        UNROLL for (int j = 0; j < rows; j++) {
            float *at = s + j * dk + i;
            const f8 sv = f_mul(a, f_load(at));
            f_store(at, sv);
            p[j] = f_fma(sv, kv, p[j]);
        }
    }
    UNROLL for (int j = 0; j < rows; j++) d[j] = f_set(beta * (v[j] - hsum(p[j])));
    for (int64_t i = 0; i < dk; i += 8) {
        const f8 kv = f_load(k + i), qv = f_load(q + i);
        UNROLL for (int j = 0; j < rows; j++) {
            float *at = s + j * dk + i;
            const f8 sv = f_fma(d[j], kv, f_load(at));
            f_store(at, sv);
            y[j] = f_fma(sv, qv, y[j]);
        }
    }
    UNROLL for (int j = 0; j < rows; j++) o[j] = hsum(y[j]);
}

static void kda_rows(float *s, const float *q, const float *k, int64_t ldqk, const float *v,
                     int64_t ldv, float *o, int64_t ldo, const float *decay, int64_t ldd,
                     const float *beta, int64_t ldg, int64_t n_tok, int64_t dk, int64_t j0,
                     int64_t j1) {
    if (dk % 8) {
        struct kern ref;
        kern_ref_f32(&ref);
        ref.kda_rows(s, q, k, ldqk, v, ldv, o, ldo, decay, ldd, beta, ldg, n_tok, dk, j0, j1);
        return;
    }
    int64_t j = j0;
    for (; j + 4 <= j1; j += 4)
        for (int64_t t = 0; t < n_tok; t++)
            kda_step(4, s + j * dk, q + t * ldqk, k + t * ldqk, v + t * ldv + j, o + t * ldo + j,
                     decay + t * ldd, beta[t * ldg], dk);
    for (; j < j1; j++)
        for (int64_t t = 0; t < n_tok; t++)
            kda_step(1, s + j * dk, q + t * ldqk, k + t * ldqk, v + t * ldv + j, o + t * ldo + j,
                     decay + t * ldd, beta[t * ldg], dk);
}

/* Runs one token on `rows` (1 or 4) rows of the state. n is a multiple of 8. */
INLINE void mamba2_step(int rows, float *s, const float *b, const float *c, const float *x,
                        float *o, float decay, float dt, float skip, int64_t n) {
    f8 y[4], in[4];
    UNROLL for (int j = 0; j < rows; j++) {
        y[j] = f_set(0);
        in[j] = f_set(dt * x[j]);
    }
    const f8 a = f_set(decay);
    for (int64_t i = 0; i < n; i += 8) {
        const f8 bv = f_load(b + i), cv = f_load(c + i);
        UNROLL for (int j = 0; j < rows; j++) {
            float *p = s + j * n + i;
            const f8 v = f_fma(in[j], bv, f_mul(a, f_load(p)));
            f_store(p, v);
            y[j] = f_fma(v, cv, y[j]);
        }
    }
    UNROLL for (int j = 0; j < rows; j++) o[j] = __builtin_fmaf(skip, x[j], hsum(y[j]));
}

static void mamba2_rows(float *s, const float *b, const float *c, int64_t ldbc, const float *x,
                        int64_t ldx, float *o, int64_t ldo, const float *decay, const float *dt,
                        int64_t ldg, float skip, int64_t n_tok, int64_t n, int64_t j0, int64_t j1) {
    if (n % 8) {
        struct kern ref;
        kern_ref_f32(&ref);
        ref.mamba2_rows(s, b, c, ldbc, x, ldx, o, ldo, decay, dt, ldg, skip, n_tok, n, j0, j1);
        return;
    }
    int64_t j = j0;
    for (; j + 4 <= j1; j += 4)
        for (int64_t t = 0; t < n_tok; t++)
            mamba2_step(4, s + j * n, b + t * ldbc, c + t * ldbc, x + t * ldx + j, o + t * ldo + j,
                        decay[t * ldg], dt[t * ldg], skip, n);
    for (; j < j1; j++)
        for (int64_t t = 0; t < n_tok; t++)
            mamba2_step(1, s + j * n, b + t * ldbc, c + t * ldbc, x + t * ldx + j, o + t * ldo + j,
                        decay[t * ldg], dt[t * ldg], skip, n);
}

static void mamba1_rows(float *s, const float *a, const float *skip, const float *x,
                        const float *dt, float *o, int64_t ld, const float *b, const float *c,
                        int64_t ldbc, int64_t n_tok, int64_t n, int64_t j0, int64_t j1) {
    if (n % 8) {
        struct kern ref;
        kern_ref_f32(&ref);
        ref.mamba1_rows(s, a, skip, x, dt, o, ld, b, c, ldbc, n_tok, n, j0, j1);
        return;
    }
    for (int64_t j = j0; j < j1; j++)
        for (int64_t t = 0; t < n_tok; t++) {
            const float xj = x[t * ld + j], raw = dt[t * ld + j];
            const float d = fp_softplusf(raw);
            const f8 dv = f_set(d), in = f_set(d * xj);
            f8 y = f_set(0);
            for (int64_t i = 0; i < n; i += 8) {
                float *p = s + j * n + i;
                const f8 keep = vexp(f_mul(dv, f_load(a + j * n + i)));
                const f8 v = f_fma(in, f_load(b + t * ldbc + i), f_mul(keep, f_load(p)));
                f_store(p, v);
                y = f_fma(v, f_load(c + t * ldbc + i), y);
            }
            o[t * ld + j] = __builtin_fmaf(skip[j], xj, hsum(y));
        }
}

static void put_seq(struct kern *k) {
    k->conv_silu = conv_silu;
    k->delta_rows = delta_rows;
    k->delta_back = delta_back;
    k->kda_rows = kda_rows;
    k->mamba2_rows = mamba2_rows;
    k->mamba1_rows = mamba1_rows;
}
