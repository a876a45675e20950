// SPDX-License-Identifier: MIT
/* tests/kern/check_ops.h - the operators of every ISA (including ref) against their definitions in
 * double. Bounds count roundings of 2^-24; outputs start as NaN, and memory past them must not
 * change. */
#ifndef HONE_TESTS_KERN_CHECK_OPS_H
#define HONE_TESTS_KERN_CHECK_OPS_H

#include <sys/mman.h>
#include <unistd.h>

#include "base/rng.h"
#include "kernels/kern.h"
#include "tests/check.h"

#define EPS 0x1p-24
/* The first ISA to check; isa_emu.c skips those that every machine has. */
static enum kern_isa isa_first = KERN_REF;
#define EACH_ISA(k)                                                                                \
    for (int isa_ = (int)isa_first;                                                                \
         isa_ <= (int)kern_isa_best() && (kern_init(&(k), (enum kern_isa)isa_), 1); isa_++)        \
        if ((int)(k).isa == isa_)
static const int64_t widths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 64, 127, 128, 130, 512, 1000};
enum { N_WIDTHS = sizeof widths / sizeof widths[0], MAX_WIDTH = 1000, PAD = 16 };

static void near_(const char *what, const struct kern *k, int64_t n, int64_t i, double got,
                  double want, double tol) {
    if (!(fabs(got - want) <= tol))
        CHECK_FAIL("%s %s n %" PRId64 " element %" PRId64 ": %.9g, expected %.9g within %.3g", what,
                   kern_isa_name(k->isa), n, i, got, want, tol);
}
static void normals(struct rng *r, float *x, int64_t n, float scale) {
    for (int64_t i = 0; i < n; i++) x[i] = scale * rng_normal(r);
}
static int intact(const float *y, int64_t n) { /* PAD values of 77 after y[n] */
    for (int64_t i = n; i < n + PAD; i++)
        if (y[i] != 77.0f) return 0;
    return 1;
}
static void poison(float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = NAN;
    for (int64_t i = n; i < n + PAD; i++) y[i] = 77.0f;
}

static void test_norms(void) {
    struct kern k;
    struct rng r;
    rng_seed(&r, 11);
    float x[MAX_WIDTH], w[MAX_WIDTH], y[MAX_WIDTH + PAD];
    EACH_ISA(k) for (int c = 0; c < N_WIDTHS; c++) {
        const int64_t n = widths[c];
        normals(&r, x, n, c % 3 ? 1.0f : 1e-3f);
        normals(&r, w, n, 1);
        double s = 0;
        for (int64_t i = 0; i < n; i++) s += (double)x[i] * (double)x[i];
        const double rms = 1 / sqrt(s / (double)n + 1e-6), l2 = 0.25 / sqrt(s + 1e-6);
        for (int with = 0; with < 2; with++) {
            poison(y, n);
            k.rms_norm(x, with ? w : NULL, y, n, 1e-6f);
            for (int64_t i = 0; i < n; i++) { /* 1e-6f, scale and products: 4 roundings */
                const double want = (double)x[i] * rms * (with ? (double)w[i] : 1);
                near_("rms_norm", &k, n, i, (double)y[i], want, 4 * EPS * fabs(want));
            }
            CHECK(intact(y, n));
        }
        poison(y, n);
        memcpy(y, x, (size_t)n * sizeof *y);
        k.rms_norm(y, w, y, n, 1e-6f); /* in place */
        near_("rms_norm", &k, n, n - 1, (double)y[n - 1], (double)x[n - 1] * rms * (double)w[n - 1],
              4 * EPS * fabs((double)y[n - 1]));
        memcpy(y, x, (size_t)n * sizeof *y);
        k.l2_norm(y, n, 1e-6f, 0.25f);
        for (int64_t i = 0; i < n; i++)
            near_("l2_norm", &k, n, i, (double)y[i], (double)x[i] * l2,
                  3 * EPS * fabs((double)y[i]));
        CHECK(intact(y, n));
    }
}

/* Allows an exponential 16 roundings (the polynomial's 1e-7, the reduction, the division); results
 * below e^-87 may be flushed to zero. */
static void test_elementwise(void) {
    struct kern k;
    struct rng r;
    rng_seed(&r, 12);
    float x[MAX_WIDTH], z[MAX_WIDTH], y[MAX_WIDTH + PAD];
    EACH_ISA(k) for (int c = 0; c < N_WIDTHS; c++) {
        const int64_t n = widths[c];
        normals(&r, x, n, c % 2 ? 3.0f : 40.0f);
        normals(&r, z, n, 1);
        if (n > 8) x[0] = 300, x[1] = -300, x[2] = 88, x[3] = -88, x[4] = 0;
        poison(y, n);
        k.swiglu(x, z, y, n);
        for (int64_t i = 0; i < n; i++) {
            const double want = (double)x[i] / (1 + exp(-(double)x[i])) * (double)z[i];
            near_("swiglu", &k, n, i, (double)y[i], want, 16 * EPS * fabs(want) + 1e-34);
        }
        CHECK(intact(y, n));
        memcpy(y, z, (size_t)n * sizeof *y);
        k.silu_mul(y, x, n);
        for (int64_t i = 0; i < n; i++) {
            const double want = (double)x[i] / (1 + exp(-(double)x[i])) * (double)z[i];
            near_("silu_mul", &k, n, i, (double)y[i], want, 16 * EPS * fabs(want) + 1e-34);
        }
        memcpy(y, z, (size_t)n * sizeof *y);
        k.sigmoid_mul(y, x, n);
        for (int64_t i = 0; i < n; i++) {
            const double want = (double)z[i] / (1 + exp(-(double)x[i]));
            near_("sigmoid_mul", &k, n, i, (double)y[i], want, 16 * EPS * fabs(want) + 1e-36);
        }
        memcpy(y, z, (size_t)n * sizeof *y);
        k.axpy(y, x, 0.3f, n);
        for (int64_t i = 0; i < n; i++) {
            const double p = (double)0.3f * (double)x[i];
            near_("axpy", &k, n, i, (double)y[i], (double)z[i] + p,
                  2 * EPS * (fabs(p) + fabs((double)z[i])));
        }
        CHECK(intact(y, n));
    }
}

static void test_softmax(void) {
    struct kern k;
    struct rng r;
    rng_seed(&r, 13);
    float x[MAX_WIDTH], y[MAX_WIDTH + PAD];
    EACH_ISA(k) for (int c = 0; c < N_WIDTHS; c++) {
        const int64_t n = widths[c];
        normals(&r, x, n, c % 2 ? 2.0f : 30.0f);
        if (n > 8) x[3] = -INFINITY; /* a masked position */
        double max = (double)-INFINITY, s = 0;
        for (int64_t i = 0; i < n; i++) max = fmax(max, (double)x[i]);
        for (int64_t i = 0; i < n; i++) s += exp((double)x[i] - max);
        poison(y, n);
        memcpy(y, x, (size_t)n * sizeof *y);
        k.softmax(y, n);
        for (int64_t i = 0; i < n; i++) { /* the rounding of x - max enters the exponent */
            const double want = exp((double)x[i] - max) / s,
                         arg = isinf(x[i]) ? 0 : max - (double)x[i];
            near_("softmax", &k, n, i, (double)y[i], want, (20 + arg) * EPS * want + 1e-37);
        }
        CHECK(intact(y, n));
    }
}

/* Compares pieces of 1, 2, 4, ... scores with the whole row; all scores of a piece may be
 * masked. */
static void test_softmax_more(void) {
    struct kern k;
    struct rng r;
    rng_seed(&r, 19);
    float x[MAX_WIDTH], y[MAX_WIDTH + PAD];
    EACH_ISA(k) for (int c = 0; c < N_WIDTHS; c++) {
        const int64_t n = widths[c];
        normals(&r, x, n, c % 2 ? 2.0f : 20.0f);
        x[0] = -INFINITY; /* the first piece: nothing is visible yet */
        if (n > 8) x[5] = -INFINITY;
        double max = (double)-INFINITY, s = 0, sum = 0;
        for (int64_t i = 0; i < n; i++) max = fmax(max, (double)x[i]);
        for (int64_t i = 1; i < n; i++) s += exp((double)x[i] - max);
        float top = -INFINITY;
        poison(y, n);
        for (int64_t at = 0, piece = 1; at < n; at += piece, piece *= 2) {
            const int64_t m = n - at < piece ? n - at : piece;
            memcpy(y + at, x + at, (size_t)m * sizeof *y);
            const float less = k.softmax_more(y + at, m, &top, &sum);
            for (int64_t i = 0; i < at; i++) y[i] *= less;
        }
        if (n > 1) CHECK((double)top == max);
        near_("softmax_more's sum", &k, n, 0, sum, s, 200 * EPS * s);
        for (int64_t i = 0; i < n; i++) {
            const double want = n > 1 ? exp((double)x[i] - max) : 0,
                         arg = isinf(x[i]) ? 0 : max - (double)x[i];
            near_("softmax_more", &k, n, i, (double)y[i], want,
                  (32 + 2 * arg) * EPS * want + 1e-36);
        }
        CHECK(intact(y, n));
        top = 3, sum = 2;
        CHECK(k.softmax_more(y, 0, &top, &sum) == 1 && top == 3 && sum == 2);
    }
}

static void test_rope(void) {
    struct kern k;
    struct rng r;
    rng_seed(&r, 14);
    float x[256], y[256 + PAD], cs[256];
    EACH_ISA(k) for (int64_t n = 2; n <= 256; n += n < 34 ? 2 : 74) {
        normals(&r, x, n, 1);
        for (int64_t j = 0; j < n / 2; j++) {
            cs[2 * j] = (float)cos(0.7 * (double)j);
            cs[2 * j + 1] = (float)sin(0.7 * (double)j);
        }
        poison(y, n);
        memcpy(y, x, (size_t)n * sizeof *y);
        k.rope_neox(y, cs, n);
        for (int64_t j = 0; j < n / 2; j++) {
            const double a = (double)x[j], b = (double)x[j + n / 2];
            const double co = (double)cs[2 * j], si = (double)cs[2 * j + 1],
                         tol = 3 * EPS * (fabs(a) + fabs(b));
            near_("rope", &k, n, j, (double)y[j], a * co - b * si, tol);
            near_("rope", &k, n, j + n / 2, (double)y[j + n / 2], b * co + a * si, tol);
        }
        CHECK(intact(y, n));
    }
}

/* Compares all tokens at once, and two pieces with the state carried over, with the sum over the
 * history. */
static void test_conv(void) {
    enum { CH = 29, LD = 31, TOK = 11 };
    struct kern k;
    struct rng r;
    rng_seed(&r, 15);
    EACH_ISA(k) for (int64_t kw = 1; kw <= 5; kw++) for (int split = 0; split <= TOK; split += 1) {
        float raw[(TOK + 4) * CH], u[TOK * LD], w[CH * 5], state[4 * CH + PAD], biases[CH];
        const int64_t old = kw - 1, c0 = 2, c1 = 28;
        const float *bias = split % 2 ? biases : NULL;
        normals(&r, raw, (TOK + old) * CH, 1);
        normals(&r, w, CH * kw, 1);
        normals(&r, biases, CH, 1);
        poison(state, old * CH);
        memcpy(state, raw, (size_t)(old * CH) * sizeof *raw);
        for (int64_t t = 0; t < TOK; t++)
            for (int64_t c = 0; c < LD; c++) u[t * LD + c] = c < CH ? raw[(t + old) * CH + c] : 77;
        k.conv_silu(u, LD, w, bias, state, split, c0, c1, CH, kw);
        k.conv_silu(u + split * LD, LD, w, bias, state, TOK - split, c0, c1, CH, kw);
        for (int64_t t = 0; t < TOK; t++)
            for (int64_t c = 0; c < LD; c++) {
                double s = bias && c < CH ? (double)bias[c] : 0, mag = fabs(s);
                for (int64_t j = 0; j < kw && c < CH; j++) {
                    const double p = (double)w[c * kw + j] * (double)raw[(t + j) * CH + c];
                    s += p;
                    mag += fabs(p);
                }
                const int in = c >= c0 && c < c1;
                const double want = c >= CH ? 77
                                    : in    ? s / (1 + exp(-s))
                                            : (double)raw[(t + old) * CH + c];
                /* |silu'| < 1.1 */
                near_("conv_silu", &k, kw, t * LD + c, (double)u[t * LD + c], want,
                      in ? 8 * EPS * mag + 16 * EPS * fabs(want) : 0);
            }
        for (int64_t i = 0; i < old * CH;
             i++) /* the last raw inputs, oldest first; other channels are unchanged */
            CHECK(state[i] == (i % CH >= c0 && i % CH < c1 ? raw[TOK * CH + i] : raw[i]));
        CHECK(intact(state, old * CH));
    }
}

/* Tests the short convolution like test_conv: applied to products, without SiLU, and multiplied by
 * a factor. */
static void test_short_conv(void) {
    enum { CH = 19, TOK = 9, KW = 3 };
    struct kern k;
    struct rng r;
    rng_seed(&r, 18);
    EACH_ISA(k) for (int split = 0; split <= TOK; split++) {
        float u[TOK * 3 * CH], w[CH * KW], state[(KW - 1) * CH + PAD], o[TOK * CH + PAD],
            old[(KW - 1) * CH];
        const int64_t c0 = 1, c1 = 18;
        normals(&r, u, TOK * 3 * CH, 1);
        normals(&r, w, CH * KW, 1);
        normals(&r, old, (KW - 1) * CH, 1);
        poison(state, (KW - 1) * CH);
        poison(o, TOK * CH);
        memcpy(state, old, sizeof old);
        k.short_conv(u, 3 * CH, w, state, o, CH, split, c0, c1, CH, KW);
        k.short_conv(u + split * 3 * CH, 3 * CH, w, state, o + split * CH, CH, TOK - split, c0, c1,
                     CH, KW);
        for (int64_t t = 0; t < TOK; t++)
            for (int64_t c = c0; c < c1; c++) {
                double s = 0, mag = 0;
                for (int64_t j = 0; j < KW; j++) {
                    const int64_t at = t + j - (KW - 1);
                    const double x =
                        at < 0 ? (double)old[(at + KW - 1) * CH + c]
                               : (double)u[at * 3 * CH + c] * (double)u[(at * 3 + 2) * CH + c];
                    s += (double)w[c * KW + j] * x;
                    mag += fabs((double)w[c * KW + j] * x);
                }
                const double by = (double)u[(t * 3 + 1) * CH + c];
                near_("short_conv", &k, split, t * CH + c, (double)o[t * CH + c], s * by,
                      8 * EPS * mag * fabs(by));
            }
        CHECK(isnan(o[0]) && isnan(o[CH - 1]) && state[0] == old[0]);
        CHECK(intact(state, (KW - 1) * CH) && intact(o, TOK * CH));
    }
}

/* Returns log(1 + e^x). The tests of Mamba below use random numbers of the usual magnitude and
 * compare with the recurrence in double, all at once and in two pieces; rows outside [j0, j1) must
 * not change. A state is a sum of n_tok terms, an output one of n; the errors of exp enter every
 * term. */
static double softplus_(double x) {
    return x > 20 ? x : log1p(exp(x));
}
static void mamba_case(struct rng *r, const struct kern *k, bool first, int64_t n, int64_t split) {
    enum { ROWS = 11, MAX_N = 128, TOK = 12 };
    static float s[ROWS * MAX_N + PAD], a[ROWS * MAX_N], b[TOK * 2 * MAX_N], x[TOK * ROWS],
        dt[TOK * ROWS], o[TOK * ROWS + PAD], skip[ROWS], decay[TOK];
    static double ds[ROWS * MAX_N];
    const int64_t j0 = 1, j1 = ROWS - 1, ld = 2 * n;
    normals(r, s, ROWS * n, 1);
    normals(r, b, TOK * ld, 1);
    normals(r, x, TOK * ROWS, 1);
    normals(r, dt, TOK * ROWS, 2);
    normals(r, skip, ROWS, 1);
    for (int64_t i = 0; i < ROWS * n; i++) {
        a[i] = -rng_f32(r, 0.1f, 4);
        ds[i] = (double)s[i];
    }
    if (!first) /* one step width and decay per token */
        for (int64_t t = 0; t < TOK; t++) {
            dt[t] = rng_f32(r, 0, 2);
            decay[t] = rng_f32(r, 0.1f, 1);
        }
    poison(s + ROWS * n, 0);
    poison(o, TOK * ROWS);
    for (int piece = 0; piece < 2; piece++) {
        const int64_t t = piece ? split : 0, m = piece ? TOK - split : split;
        if (first)
            k->mamba1_rows(s, a, skip, x + t * ROWS, dt + t * ROWS, o + t * ROWS, ROWS, b + t * ld,
                           b + t * ld + n, ld, m, n, j0, j1);
        else
            k->mamba2_rows(s, b + t * ld, b + t * ld + n, ld, x + t * ROWS, ROWS, o + t * ROWS,
                           ROWS, decay + t, dt + t, 1, skip[0], m, n, j0, j1);
    }
    for (int64_t t = 0; t < TOK; t++)
        for (int64_t j = j0; j < j1; j++) {
            const double xj = (double)x[t * ROWS + j];
            const double d = first ? softplus_((double)dt[t * ROWS + j]) : (double)dt[t];
            double y = (double)skip[first ? j : 0] * xj, mag = fabs(y);
            for (int64_t i = 0; i < n; i++) {
                double *v = &ds[j * n + i];
                *v *= first ? exp(d * (double)a[j * n + i]) : (double)decay[t];
                *v += d * xj * (double)b[t * ld + i];
                y += *v * (double)b[t * ld + n + i];
                mag += (fabs(*v) + 5) * fabs((double)b[t * ld + n + i]);
            }
            near_("mamba output", k, n, t * ROWS + j, (double)o[t * ROWS + j], y, 32 * EPS * mag);
        }
    for (int64_t i = 0; i < ROWS * n; i++)
        near_("mamba state", k, n, i, (double)s[i], ds[i],
              i / n >= j0 && i / n < j1 ? 64 * EPS * (fabs(ds[i]) + 5) : 0);
    for (int64_t t = 0; t < TOK; t++) CHECK(isnan(o[t * ROWS]) && isnan(o[t * ROWS + ROWS - 1]));
    CHECK(intact(s, ROWS * n) && intact(o, TOK * ROWS));
}
static void test_mamba(void) {
    static const int64_t n[] = {8, 12, 16, 64, 128};
    struct kern k;
    struct rng r;
    rng_seed(&r, 19);
    EACH_ISA(k)
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++)
        for (int64_t split = 0; split <= 12; split += 3) {
            mamba_case(&r, &k, true, n[i], split);
            mamba_case(&r, &k, false, n[i], split);
        }
}

/* Tests Kimi delta attention like delta_case, with a decay for each column. */
static void kda_case(struct rng *r, const struct kern *k, int64_t dk) {
    enum { DV = 11, MAX_DK = 128, TOK = 20 };
    static float s[DV * MAX_DK + PAD], q[TOK * MAX_DK], kk[TOK * MAX_DK], v[TOK * DV],
        o[TOK * DV + PAD], a[TOK * MAX_DK], b[TOK];
    static double ds[DV * MAX_DK];
    normals(r, s, DV * dk, 0.3f);
    normals(r, q, TOK * dk, 1);
    normals(r, kk, TOK * dk, 1);
    normals(r, v, TOK * DV, 1);
    for (int64_t t = 0; t < TOK; t++) {
        k->l2_norm(q + t * dk, dk, 1e-6f, 1);
        k->l2_norm(kk + t * dk, dk, 1e-6f, 1);
        b[t] = rng_f32(r, 0, 1);
    }
    for (int64_t i = 0; i < TOK * dk; i++) a[i] = rng_f32(r, 0.5f, 1);
    for (int64_t i = 0; i < DV * dk; i++) ds[i] = (double)s[i];
    poison(s + DV * dk, 0);
    poison(o, TOK * DV);
    const int64_t j0 = 1, j1 = DV - 1, cut = 7;
    const double tol = (double)(dk / 8 + 20) * EPS * 16;
    k->kda_rows(s, q, kk, dk, v, DV, o, DV, a, dk, b, 1, cut, dk, j0, j1);
    k->kda_rows(s, q + cut * dk, kk + cut * dk, dk, v + cut * DV, DV, o + cut * DV, DV,
                a + cut * dk, dk, b + cut, 1, TOK - cut, dk, j0, j1);
    for (int64_t t = 0; t < TOK; t++)
        for (int64_t j = j0; j < j1; j++) {
            double *row = ds + j * dk, p = 0, out = 0;
            const float *kt = kk + t * dk, *qt = q + t * dk;
            for (int64_t i = 0; i < dk; i++) p += (row[i] *= (double)a[t * dk + i]) * (double)kt[i];
            const double d = (double)b[t] * ((double)v[t * DV + j] - p);
            for (int64_t i = 0; i < dk; i++) out += (row[i] += d * (double)kt[i]) * (double)qt[i];
            near_("kda output", k, dk, t * DV + j, (double)o[t * DV + j], out, tol);
        }
    for (int64_t i = 0; i < DV * dk; i++)
        near_("kda state", k, dk, i, (double)s[i], ds[i], i / dk >= j0 && i / dk < j1 ? tol : 0);
    CHECK(isnan(o[0]) && isnan(o[DV - 1]));
    CHECK(intact(s, DV * dk) && intact(o, TOK * DV));
}
static void test_kda(void) {
    static const int64_t dks[] = {8, 12, 16, 64, 128};
    struct kern k;
    struct rng r;
    rng_seed(&r, 20);
    EACH_ISA(k) for (size_t i = 0; i < sizeof dks / sizeof dks[0]; i++) kda_case(&r, &k, dks[i]);
}

/* Compares with the textbook order: decay the state, correct it towards v, read it with q. One
 * token's result has sums of dk products; errors of the state add up over tokens, but the rule
 * contracts (beta < 1, |k| = 1). */
static void delta_case(struct rng *r, const struct kern *k, int64_t dk, int64_t n_tok) {
    enum { DV = 11, MAX_DK = 128, MAX_TOK = 70 };
    static float s[DV * MAX_DK + PAD], q[MAX_TOK * MAX_DK], kk[MAX_TOK * MAX_DK], v[MAX_TOK * DV],
        o[MAX_TOK * DV + PAD], a[2 * MAX_TOK], b[2 * MAX_TOK];
    static double ds[DV * MAX_DK];
    normals(r, s, DV * dk, 0.3f);
    normals(r, q, n_tok * dk, 1);
    normals(r, kk, n_tok * dk, 1);
    normals(r, v, n_tok * DV, 1);
    for (int64_t t = 0; t < n_tok; t++) {
        k->l2_norm(q + t * dk, dk, 1e-6f, 1);
        k->l2_norm(kk + t * dk, dk, 1e-6f, 1);
        a[2 * t] = rng_f32(r, 0.5f, 1);
        b[2 * t] = rng_f32(r, 0, 1);
    }
    for (int64_t i = 0; i < DV * dk; i++) ds[i] = (double)s[i];
    poison(s + DV * dk, 0);
    poison(o, n_tok * DV);
    static float s2[DV * MAX_DK];
    memcpy(s2, s, (size_t)(DV * dk) * sizeof *s);
    const int64_t j0 = 1, j1 = DV - 1;
    const double tol = (double)(dk / 8 + 20) * EPS * 16;
    k->delta_rows(s, q, kk, dk, v, DV, o, DV, a, b, 2, n_tok, dk, j0, j1);
    for (int64_t t = 0; t < n_tok; t++)
        for (int64_t j = j0; j < j1; j++) {
            double *row = ds + j * dk, p = 0, out = 0;
            const float *kt = kk + t * dk, *qt = q + t * dk;
            for (int64_t i = 0; i < dk; i++) p += (row[i] *= (double)a[2 * t]) * (double)kt[i];
            const double d = (double)b[2 * t] * ((double)v[t * DV + j] - p);
            for (int64_t i = 0; i < dk; i++) out += (row[i] += d * (double)kt[i]) * (double)qt[i];
            near_("delta output", k, dk, t * DV + j, (double)o[t * DV + j], out, tol);
        }
    for (int64_t i = 0; i < DV * dk; i++)
        near_("delta state", k, dk, i, (double)s[i], ds[i], i / dk >= j0 && i / dk < j1 ? tol : 0);
    /* a row alone gives the same bits: threads may split rows as they like */
    const float last = o[(n_tok - 1) * DV + 5];
    k->delta_rows(s2, q, kk, dk, v, DV, o, DV, a, b, 2, n_tok, dk, 5, 6);
    CHECK(memcmp(s2 + 5 * dk, s + 5 * dk, (size_t)dk * sizeof *s) == 0);
    CHECK(last == o[(n_tok - 1) * DV + 5]);
    for (int64_t t = 0; t < n_tok; t++) CHECK(isnan(o[t * DV]) && isnan(o[t * DV + DV - 1]));
    CHECK(intact(s, DV * dk) && intact(o, n_tok * DV));
}

/* The loss that delta_back_case differentiates: <o, dy> + <S', z> after one token of the textbook
 * rule. x: q, k, v, decay, beta, then the state [dv][dk]. */
static double delta_loss(const double *x, const float *dy, const float *z, int64_t dk, int64_t dv) {
    const double *q = x, *k = q + dk, *v = k + dk, a = v[dv], b = v[dv + 1], *s = v + dv + 2;
    double loss = 0;
    for (int64_t r = 0; r < dv; r++) {
        double p = 0, o = 0;
        for (int64_t i = 0; i < dk; i++) p += a * s[r * dk + i] * k[i];
        for (int64_t i = 0; i < dk; i++) {
            const double next = a * s[r * dk + i] + b * (v[r] - p) * k[i];
            o += next * q[i];
            loss += next * (double)z[r * dk + i];
        }
        loss += o * (double)dy[r];
    }
    return loss;
}

/* Compares all gradients of a token with central differences, in double, of the loss. */
static void delta_back_case(struct rng *r, const struct kern *k, int64_t dk) {
    enum { DV = 5, MAX_DK = 64, MOST = 2 * MAX_DK + DV + 2 + DV * MAX_DK };
    static float f[MOST], dy[DV], z[DV * MAX_DK + PAD], got[MOST];
    static double x[MOST];
    const int64_t gates = 2 * dk + DV, state = gates + 2, n = state + DV * dk;
    normals(r, f, n, .3f);
    normals(r, dy, DV, 1);
    normals(r, z, DV * dk, .3f);
    f[gates] = rng_f32(r, .5f, 1);
    f[gates + 1] = rng_f32(r, 0, 1);
    for (int64_t i = 0; i < n; i++) x[i] = (double)f[i];
    static float before[DV * MAX_DK];
    memcpy(before, z, (size_t)(DV * dk) * sizeof *z);
    poison(z + DV * dk, 0);
    memset(got, 0, sizeof got);
    struct kern_delta_back j = {dk,           DV,  f,        f + dk,       f + 2 * dk, dy, f[gates],
                                f[gates + 1], got, got + dk, got + 2 * dk, 0,          0};
    k->delta_back(&j, f + state, z);
    got[gates] = (float)j.ddecay;
    got[gates + 1] = (float)j.dbeta;
    memcpy(got + state, z, (size_t)(DV * dk) * sizeof *z);
    for (int64_t i = 0; i < n; i++) {
        const double at = x[i], h = 1e-4;
        x[i] = at + h;
        const double more = delta_loss(x, dy, before, dk, DV);
        x[i] = at - h;
        const double less = delta_loss(x, dy, before, dk, DV);
        x[i] = at;
        near_("delta gradient", k, dk, i, (double)got[i], (more - less) / (2 * h), 1e-4);
    }
    CHECK(intact(z, DV * dk));
}
static void test_delta_back(void) {
    static const int64_t dks[] = {8, 12, 16, 64};
    struct kern k;
    struct rng r;
    rng_seed(&r, 22);
    EACH_ISA(k)
    for (size_t i = 0; i < sizeof dks / sizeof dks[0]; i++) delta_back_case(&r, &k, dks[i]);
}

static void test_delta(void) {
    static const int64_t dks[] = {8, 12, 16, 24, 32, 64, 96, 128}, toks[] = {1, 2, 63, 64, 65, 70};
    struct kern k;
    struct rng r;
    rng_seed(&r, 16);
    EACH_ISA(k)
    for (size_t i = 0; i < sizeof dks / sizeof dks[0]; i++)
        for (size_t t = 0; t < sizeof toks / sizeof toks[0]; t++)
            delta_case(&r, &k, dks[i], toks[t]);
}

/* n floats that end at a page that faults when read, in every build, since the product is built
 * without the address sanitizer (Makefile). They start as NaN, so that reads between rows are
 * detected. */
struct guarded {
    float *p;
    void *map;
    size_t size;
};
static float *guarded_new(struct guarded *g, int64_t n) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (size_t)n * sizeof(float);
    const size_t body = (bytes + page - 1) / page * page;
    g->size = body + page;
    g->map = mmap(NULL, g->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g->map == MAP_FAILED || mprotect((char *)g->map + body, page, PROT_NONE)) abort();
    g->p = (float *)(void *)((char *)g->map + body - bytes);
    for (int64_t i = 0; i < n; i++) g->p[i] = NAN;
    return g->p;
}

/* Also checks that an element has the same bits for any shape of the call (ISAs above ref guarantee
 * that, and ref does it too). */
static void gemm_case(struct rng *r, const struct kern *k, int64_t m, int64_t n, int64_t kk) {
    const int64_t lda = kk + 3, ldb = kk + 1, ldc = n + 2;
    struct guarded g[3];
    float *a = guarded_new(&g[0], (m - 1) * lda + kk), *b = guarded_new(&g[1], (n - 1) * ldb + kk),
          *c = guarded_new(&g[2], (m - 1) * ldc + n);
    for (int64_t i = 0; i < m; i++) normals(r, a + i * lda, kk, 1);
    for (int64_t j = 0; j < n; j++) normals(r, b + j * ldb, kk, 1);
    k->gemm_f32(a, lda, b, ldb, c, ldc, m, n, kk);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double s = 0, mag = 0;
            for (int64_t p = 0; p < kk; p++) {
                const double x = (double)a[i * lda + p] * (double)b[j * ldb + p];
                s += x;
                mag += fabs(x);
            }
            near_("gemm", k, m * 1000000 + n * 10000 + kk, i * n + j, (double)c[i * ldc + j], s,
                  ((double)kk / 8 + 16) * EPS * mag);
        }
        if (i + 1 < m) CHECK(isnan(c[i * ldc + n]) && isnan(c[i * ldc + n + 1]));
    }
    float one = 0;
    k->gemm_f32(a + (m - 1) * lda, lda, b + (n / 2) * ldb, ldb, &one, 1, 1, 1, kk);
    CHECK(one == c[(m - 1) * ldc + n / 2]);
    for (int i = 0; i < 3; i++) munmap(g[i].map, g[i].size);
}

/* Tests C += A B, and that one row alone gives the same bits. */
static void gemm_nn_case(struct rng *r, const struct kern *k, int64_t m, int64_t n, int64_t kk) {
    const int64_t lda = kk + 3, ldb = n + 2, ldc = n + 2;
    struct guarded g[3];
    float *a = guarded_new(&g[0], (m - 1) * lda + kk), *b = guarded_new(&g[1], (kk - 1) * ldb + n),
          *c = guarded_new(&g[2], (m - 1) * ldc + n);
    for (int64_t i = 0; i < m; i++) normals(r, a + i * lda, kk, 1);
    for (int64_t p = 0; p < kk; p++) normals(r, b + p * ldb, n, 1);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) c[i * ldc + j] = (float)(i - j);
    k->gemm_nn(a, lda, b, ldb, c, ldc, m, n, kk);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double s = (double)(i - j), mag = fabs(s);
            for (int64_t p = 0; p < kk; p++) {
                const double x = (double)a[i * lda + p] * (double)b[p * ldb + j];
                s += x;
                mag += fabs(x);
            }
            near_("gemm_nn", k, m * 1000000 + n * 10000 + kk, i * n + j, (double)c[i * ldc + j], s,
                  (double)(kk + 1) * EPS * mag);
        }
        if (i + 1 < m) CHECK(isnan(c[i * ldc + n]) && isnan(c[i * ldc + n + 1]));
    }
    float one[MAX_WIDTH];
    for (int64_t j = 0; j < n; j++) one[j] = (float)(m - 1 - j);
    k->gemm_nn(a + (m - 1) * lda, lda, b, ldb, one, n, 1, n, kk);
    CHECK(memcmp(one, c + (m - 1) * ldc, (size_t)n * sizeof *one) == 0);
    for (int i = 0; i < 3; i++) munmap(g[i].map, g[i].size);
}

static void test_gemm_nn(void) {
    static const int64_t ms[] = {1, 2, 5, 6, 7, 8, 12, 13, 31}, ns[] = {1, 7, 8, 9, 15, 16, 17, 40},
                         ks[] = {1, 2, 31, 255, 256, 257};
    struct kern k;
    struct rng r;
    rng_seed(&r, 18);
    EACH_ISA(k) {
        size_t c = 0;
        for (size_t i = 0; i < COUNT_OF(ms); i++)
            for (size_t j = 0; j < COUNT_OF(ns); j++)
                gemm_nn_case(&r, &k, ms[i], ns[j], ks[c++ % COUNT_OF(ks)]);
        gemm_nn_case(&r, &k, 20, 48, 520);
    }
}

static void test_gemm(void) {
    static const int64_t dims[] = {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64, 65},
                         ks[] = {1, 7, 8, 9, 15, 16, 17, 63, 64, 65};
    struct kern k;
    struct rng r;
    rng_seed(&r, 17);
    EACH_ISA(k) {
        size_t c = 0;
        for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++)
            for (size_t j = 0; j < sizeof dims / sizeof dims[0]; j++)
                gemm_case(&r, &k, dims[i], dims[j], ks[c++ % (sizeof ks / sizeof ks[0])]);
        gemm_case(&r, &k, 3, 9, 1024);
        gemm_case(&r, &k, 5, 6, 1025);
        gemm_case(&r, &k, 100, 7, 2060);
        gemm_case(&r, &k, 193, 13, 40);
        float x[100], y[100];
        normals(&r, x, 100, 1);
        normals(&r, y, 100, 1);
        for (int64_t n = 0; n <= 100; n++) {
            double s = 0, mag = 0;
            for (int64_t i = 0; i < n; i++) {
                s += (double)x[i] * (double)y[i];
                mag += fabs((double)x[i] * (double)y[i]);
            }
            near_("dot_f32", &k, n, 0, (double)k.dot_f32(x, y, n), s, 32 * EPS * mag);
        }
    }
}

#endif
