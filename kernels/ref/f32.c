// SPDX-License-Identifier: MIT
/* kernels/ref/f32.c - reference operators on f32 activations (kern.h), one plain loop each.
 *
 * Sums and exponentials are double, so results are correct to about one f32 rounding. These
 * operators are the reference for other ISAs, not meant to be fast. */
#include <math.h>

#include "base/fp.h"
#include "kernels/ops.h"

/* Returns the dot product of n values, summed in double. */
static float dot_f32(const float *restrict a, const float *restrict b, int64_t n) {
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += (double)a[i] * (double)b[i];
    return (float)s;
}

/* Computes C [m][n] = A [m][k] . B^T [n][k]; ld: floats between rows. */
static void gemm_f32(const float *restrict a, int64_t lda, const float *restrict b, int64_t ldb,
                     float *restrict c, int64_t ldc, int64_t m, int64_t n, int64_t k) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) c[i * ldc + j] = dot_f32(a + i * lda, b + j * ldb, k);
}

/* Adds A [m][k] . B [k][n] to C [m][n]; ld: floats between rows. */
static void gemm_nn(const float *restrict a, int64_t lda, const float *restrict b, int64_t ldb,
                    float *restrict c, int64_t ldc, int64_t m, int64_t n, int64_t k) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double s = (double)c[i * ldc + j];
            for (int64_t p = 0; p < k; p++) s += (double)a[i * lda + p] * (double)b[p * ldb + j];
            c[i * ldc + j] = (float)s;
        }
}

/* Computes y = x / rms(x) * w; w NULL: all ones. */
static void rms_norm(const float *x, const float *w, float *y, int64_t n, float eps) {
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += (double)x[i] * (double)x[i];
    const float r = (float)(1.0 / sqrt(s / (double)n + (double)eps));
    for (int64_t i = 0; i < n; i++) y[i] = w ? x[i] * r * w[i] : x[i] * r;
}

/* Scales x to the length `scale`. */
static void l2_norm(float *x, int64_t n, float eps, float scale) {
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += (double)x[i] * (double)x[i];
    const float r = (float)((double)scale / sqrt(s + (double)eps));
    for (int64_t i = 0; i < n; i++) x[i] *= r;
}

static double sigmoid(double x) {
    return 1.0 / (1.0 + fp_exp(-x));
}

/* Computes dst = silu(gate) * up. */
static void swiglu(const float *gate, const float *up, float *dst, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const double g = (double)gate[i];
        dst[i] = (float)(g * sigmoid(g) * (double)up[i]);
    }
}

/* Multiplies x by sigmoid(g), value by value. */
static void sigmoid_mul(float *x, const float *g, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = (float)((double)x[i] * sigmoid((double)g[i]));
}

/* Multiplies x by silu(z). */
static void silu_mul(float *x, const float *z, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const double v = (double)z[i];
        x[i] = (float)((double)x[i] * v * sigmoid(v));
    }
}

/* Replaces n values by their softmax. */
static void softmax(float *x, int64_t n) {
    float max = -INFINITY;
    for (int64_t i = 0; i < n; i++) max = fmaxf(max, x[i]);
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += fp_exp((double)x[i] - (double)max);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(fp_exp((double)x[i] - (double)max) / s);
}

/* Replaces n scores by exp(x - max) and updates *max and *sum; returns the factor for earlier
 * sums. */
static float softmax_more(float *x, int64_t n, float *max, double *sum) {
    const float before = *max;
    for (int64_t i = 0; i < n; i++) *max = fmaxf(*max, x[i]);
    if (*max == -INFINITY) { /* no scores yet, or all masked */
        for (int64_t i = 0; i < n; i++) x[i] = 0;
        return 1;
    }
    const double less = fp_exp((double)before - (double)*max);
    *sum *= less;
    for (int64_t i = 0; i < n; i++) {
        const double p = fp_exp((double)x[i] - (double)*max);
        *sum += p;
        x[i] = (float)p;
    }
    return (float)less;
}

/* Adds a * x to y. */
static void axpy(float *restrict y, const float *restrict x, float a, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += a * x[i];
}

/* Rotates pairs (x[j], x[j + n_rot / 2]); cs: cosine and sine of each pair. */
static void rope_neox(float *x, const float *cs, int64_t n_rot) {
    const int64_t half = n_rot / 2;
    for (int64_t j = 0; j < half; j++) {
        const float c = cs[2 * j], s = cs[2 * j + 1], x0 = x[j], x1 = x[j + half];
        x[j] = x0 * c - x1 * s;
        x[j + half] = x0 * s + x1 * c;
    }
}

/* Computes one step of a channel with taps w [k]; state is the channel's column. */
static double conv(const float *w, float *state, int64_t n_ch, int64_t k, float cur) {
    double s = (double)w[k - 1] * (double)cur;
    for (int64_t j = 0; j < k - 1; j++) s += (double)w[j] * (double)state[j * n_ch];
    for (int64_t j = 0; j + 1 < k - 1; j++) state[j * n_ch] = state[(j + 1) * n_ch];
    if (k > 1) state[(k - 2) * n_ch] = cur;
    return s;
}

/* Replaces channels [c0, c1) of u by silu of their convolution with k taps; updates the state. */
static void conv_silu(float *u, int64_t ld, const float *w, const float *bias, float *state,
                      int64_t n_tok, int64_t c0, int64_t c1, int64_t n_ch, int64_t k) {
    for (int64_t c = c0; c < c1; c++)
        for (int64_t t = 0; t < n_tok; t++) {
            double s = conv(w + c * k, state + c, n_ch, k, u[t * ld + c]);
            if (bias) s += (double)bias[c];
            u[t * ld + c] = (float)(s * sigmoid(s));
        }
}

/* Computes the gated convolution of channels [c0, c1); updates the state. */
static void short_conv(const float *u, int64_t ld, const float *w, float *state, float *o,
                       int64_t ldo, int64_t n_tok, int64_t c0, int64_t c1, int64_t n_ch,
                       int64_t k) {
    for (int64_t c = c0; c < c1; c++)
        for (int64_t t = 0; t < n_tok; t++) {
            const float *v = u + t * ld + c;
            const double s = conv(w + c * k, state + c, n_ch, k, v[0] * v[2 * n_ch]);
            o[t * ldo + c] = (float)((double)v[n_ch] * s);
        }
}

/* Runs the delta rule for rows [j0, j1) of the state s [..][dk] over n_tok tokens. */
static void delta_rows(float *s, const float *q, const float *k, int64_t ldqk, const float *v,
                       int64_t ldv, float *o, int64_t ldo, const float *decay, const float *beta,
                       int64_t ldg, int64_t n_tok, int64_t dk, int64_t j0, int64_t j1) {
    for (int64_t j = j0; j < j1; j++)
        for (int64_t t = 0; t < n_tok; t++) {
            float *row = s + j * dk;
            const float *kt = k + t * ldqk, *qt = q + t * ldqk;
            const float a = decay[t * ldg];
            double p = 0, r = 0, kq = 0;
            for (int64_t i = 0; i < dk; i++) {
                p += (double)row[i] * (double)kt[i];
                r += (double)row[i] * (double)qt[i];
                kq += (double)kt[i] * (double)qt[i];
            }
            const double d = (double)beta[t * ldg] * ((double)v[t * ldv + j] - (double)a * p);
            o[t * ldo + j] = (float)((double)a * r + kq * d);
            for (int64_t i = 0; i < dk; i++) row[i] = a * row[i] + (float)d * kt[i];
        }
}

/* Runs a token of the delta rule backward. With Z the gradient of the state S' after it, p = S k, d
 * = b (v - a p) and S' = a S + d k^T: Z += dy q^T, dd = Z k, dq = S'^T dy, dk = Z^T d - a b S^T dd.
 */
static void delta_back(struct kern_delta_back *j, const float *s, float *z) {
    for (int64_t r = 0; r < j->n_v; r++) {
        const float *sr = s + r * j->n_k;
        float *zr = z + r * j->n_k;
        double p = 0, dd = 0, zs = 0;
        for (int64_t i = 0; i < j->n_k; i++) {
            zr[i] += j->dy[r] * j->q[i];
            p += (double)sr[i] * (double)j->k[i];
            dd += (double)zr[i] * (double)j->k[i];
            zs += (double)zr[i] * (double)sr[i];
        }
        const double left = (double)j->v[r] - (double)j->decay * p, e = (double)j->beta * dd;
        const float d = (float)((double)j->beta * left), ae = (float)((double)j->decay * e);
        for (int64_t i = 0; i < j->n_k; i++) {
            j->dq[i] += j->dy[r] * (j->decay * sr[i] + d * j->k[i]);
            j->dk[i] += d * zr[i] - ae * sr[i];
            zr[i] = j->decay * (zr[i] - (float)e * j->k[i]);
        }
        j->ddecay += zs - e * p;
        j->dbeta += dd * left;
        j->dv[r] += (float)e;
    }
}

/* Runs Kimi delta attention for rows [j0, j1) of the state s over n_tok tokens. */
static void kda_rows(float *s, const float *q, const float *k, int64_t ldqk, const float *v,
                     int64_t ldv, float *o, int64_t ldo, const float *decay, int64_t ldd,
                     const float *beta, int64_t ldg, int64_t n_tok, int64_t dk, int64_t j0,
                     int64_t j1) {
    for (int64_t j = j0; j < j1; j++)
        for (int64_t t = 0; t < n_tok; t++) {
            float *row = s + j * dk;
            const float *kt = k + t * ldqk, *qt = q + t * ldqk;
            double p = 0, y = 0;
            for (int64_t i = 0; i < dk; i++) {
                row[i] *= decay[t * ldd + i];
                p += (double)row[i] * (double)kt[i];
            }
            const float d = (float)((double)beta[t * ldg] * ((double)v[t * ldv + j] - p));
            for (int64_t i = 0; i < dk; i++) {
                row[i] += d * kt[i];
                y += (double)row[i] * (double)qt[i];
            }
            o[t * ldo + j] = (float)y;
        }
}

/* Runs Mamba 2's scan for rows [j0, j1) of the state s [..][n] over n_tok tokens. */
static void mamba2_rows(float *s, const float *b, const float *c, int64_t ldbc, const float *x,
                        int64_t ldx, float *o, int64_t ldo, const float *decay, const float *dt,
                        int64_t ldg, float skip, int64_t n_tok, int64_t n, int64_t j0, int64_t j1) {
    for (int64_t j = j0; j < j1; j++)
        for (int64_t t = 0; t < n_tok; t++) {
            float *row = s + j * n;
            const float xj = x[t * ldx + j], in = dt[t * ldg] * xj;
            double y = (double)skip * (double)xj;
            for (int64_t i = 0; i < n; i++) {
                row[i] = decay[t * ldg] * row[i] + in * b[t * ldbc + i];
                y += (double)row[i] * (double)c[t * ldbc + i];
            }
            o[t * ldo + j] = (float)y;
        }
}

/* Runs Mamba's scan for channels [j0, j1) of the state s [..][n] over n_tok tokens. */
static void mamba1_rows(float *s, const float *a, const float *skip, const float *x,
                        const float *dt, float *o, int64_t ld, const float *b, const float *c,
                        int64_t ldbc, int64_t n_tok, int64_t n, int64_t j0, int64_t j1) {
    for (int64_t j = j0; j < j1; j++)
        for (int64_t t = 0; t < n_tok; t++) {
            float *row = s + j * n;
            const float xj = x[t * ld + j], raw = dt[t * ld + j];
            const float d = fp_softplusf(raw), in = d * xj;
            double y = (double)skip[j] * (double)xj;
            for (int64_t i = 0; i < n; i++) {
                row[i] = fp_expf(d * a[j * n + i]) * row[i] + in * b[t * ldbc + i];
                y += (double)row[i] * (double)c[t * ldbc + i];
            }
            o[t * ld + j] = (float)y;
        }
}

void kern_ref_f32(struct kern *k) {
    k->gemm_f32 = gemm_f32;
    k->gemm_nn = gemm_nn;
    k->dot_f32 = dot_f32;
    k->rms_norm = rms_norm;
    k->l2_norm = l2_norm;
    k->swiglu = swiglu;
    k->sigmoid_mul = sigmoid_mul;
    k->silu_mul = silu_mul;
    k->softmax = softmax;
    k->softmax_more = softmax_more;
    k->axpy = axpy;
    k->rope_neox = rope_neox;
    k->conv_silu = conv_silu;
    k->short_conv = short_conv;
    k->delta_rows = delta_rows;
    k->delta_back = delta_back;
    k->kda_rows = kda_rows;
    k->mamba2_rows = mamba2_rows;
    k->mamba1_rows = mamba1_rows;
}
