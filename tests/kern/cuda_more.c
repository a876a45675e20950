// SPDX-License-Identifier: MIT
/* tests/kern/cuda_more.c - CUDA operators that only some architectures use (LayerNorms,
 * activations, routers), compared with double arithmetic. Otherwise like cuda_ops.c. */
#include "kernels/cuda/limits.h"
#include "kernels/ops.h"
#include "tests/kern/cuda_pages.h"
#include "tests/kern/cuda_vec.h"

/* Tests groups far from 0, whose mean is much larger than their spread, and weights that span one
 * group or several. */
static void test_layer_norms(struct dev *d) {
    static const struct {
        int64_t rows, n, per; /* groups of n, `per` of them to a row of weights */
    } c[] = {{1, 2, 1}, {3, 7, 1}, {6, 64, 2}, {12, 16, 4}, {2, 513, 1}, {1, 5001, 1}};
    struct err e;
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        const int64_t n = c[i].n, all = c[i].rows * n, wn = n * c[i].per;
        float *x = randoms(all, 3), *w = randoms(wn, 1), *b = randoms(wn, 1);
        float *want = copy_of(x, all), *bare = copy_of(x, all);
        for (int64_t k = 0; k < all; k++) x[k] += 10;
        for (int64_t r = 0; r < all; r += n) {
            double mean = 0, var = 0;
            for (int64_t k = 0; k < n; k++) mean += (double)x[r + k] / (double)n;
            for (int64_t k = 0; k < n; k++)
                var += ((double)x[r + k] - mean) * ((double)x[r + k] - mean) / (double)n;
            for (int64_t k = 0; k < n; k++) {
                const double v = ((double)x[r + k] - mean) / sqrt(var + 1e-5);
                want[r + k] = (float)(v * (double)w[(r + k) % wn] + (double)b[(r + k) % wn]);
                bare[r + k] = (float)v;
            }
        }
        void *dx = put(d, x, all), *dw = put(d, w, wn), *db = put(d, b, wn), *dy = space(d, all);
        CHECK_OK(cu_layer_norm(d->s, dx, NULL, NULL, dy, c[i].rows, n, n, 1e-5f, &e));
        CHECK_OK(cu_layer_norm(d->s, dx, dw, db, dx, c[i].rows, n, wn, 1e-5f, &e));
        /* values near 10 have an error of half a unit in the last place, 4.8e-7, and a spread of
         * 1.7 */
        compare(d, "layer norm without weights", dy, bare, all, 2 * F32_TOL);
        compare(d, "layer norm in place", dx, want, all, 2 * F32_TOL);
        float *own[] = {x, w, b};
        for (int k = 0; k < 3; k++) free(own[k]);
    }
}

static const struct cu_xielu xielu = {0.75f, 1.5f, 0.5f, -0.125f};
static const struct cu_xielu limits = {1.702f, 0, 0, 0.625f}; /* of CU_ACT_CLAMPED */
static double act_of(int act, double x) {
    if (act == CU_ACT_SILU) return x * sigmoid(x);
    if (act == CU_ACT_GELU)
        return x / 2 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    if (act == CU_ACT_GELU_ERF) return x / 2 * (1 + erf(x / sqrt(2)));
    if (act == CU_ACT_TANH) return tanh(x);
    if (act == CU_ACT_CLAMPED)
        return fmin(x, (double)limits.eps) *
               sigmoid((double)limits.p * fmin(x, (double)limits.eps));
    if (act == CU_ACT_XIELU)
        return (double)xielu.b * x +
               (x > 0 ? (double)xielu.p * x * x
                      : (double)xielu.n * (expm1(fmin(x, (double)xielu.eps)) - x));
    return x > 0 ? x * x : 0;
}

/* Tests experts with biases or input weights: every kind of activation, and the sum of down's
 * biases. */
static void test_experts(struct dev *d) {
    enum { TOK = 3, USED = 2, E = 4, N = 37, LDY = N + 3, PAIRS = TOK * USED };
    static const int32_t ids[PAIRS] = {3, 0, 1, 3, 2, 1};
    static const struct {
        float limit;
        bool gelu, biased, late;
    } c[] = {{1.5f, false, true, false},
             {0, false, true, false},
             {0, true, false, false},
             {1.5f, false, false, true}};
    struct err e;
    const int32_t *di = dev_put(d, ids, sizeof ids);
    for (size_t k = 0; k < COUNT_OF(c); k++) {
        float *h = randoms(PAIRS * N, 4), *up = randoms(PAIRS * N, 4), *gb = randoms(E * N, 1);
        float *ub = randoms(E * N, 1), *by = randoms(PAIRS, 1), *want = copy_of(h, PAIRS * N);
        for (int64_t i = 0; i < PAIRS * N; i++) {
            const int64_t at = ids[i / N] * N + i % N;
            const double lim = (double)c[k].limit, b = c[k].biased;
            const double f0 = c[k].gelu ? (double)by[i / N] : 1;
            double g = f0 * (double)h[i] + b * (double)gb[at],
                   u = f0 * (double)up[i] + b * (double)ub[at];
            if (c[k].late) {
                want[i] = (float)(fmin(g * sigmoid(g), lim) * fmax(-lim, fmin(u, lim)));
                continue;
            }
            if (lim > 0) {
                g = fmin(g, lim);
                u = fmax(-lim, fmin(u, lim)) + 1;
            }
            const double f =
                c[k].gelu ? act_of(CU_ACT_GELU, g) : g * sigmoid((lim > 0 ? 1.702 : 1) * g);
            want[i] = (float)(f * u);
        }
        struct cu_moe_act a = {.h = put(d, h, PAIRS * N),
                               .up = put(d, up, PAIRS * N),
                               .ids = di,
                               .n_pairs = PAIRS,
                               .n = N,
                               .alpha = 1.702f,
                               .limit = c[k].limit,
                               .gelu = c[k].gelu,
                               .late = c[k].late};
        if (c[k].biased) {
            a.gate_bias = put(d, gb, E * N);
            a.up_bias = put(d, ub, E * N);
        }
        if (c[k].gelu) a.p = put(d, by, PAIRS);
        CHECK_OK(cu_moe_act(d->s, &a, &e));
        compare(d, "activation of experts", a.h, want, PAIRS * N, F32_TOL);
        float *own[] = {h, up, gb, ub, by};
        for (int i = 0; i < 5; i++) free(own[i]);
    }
    float *y = randoms(TOK * LDY, 1), *bias = randoms(E * N, 1), *p = randoms(PAIRS, 1);
    float *want = copy_of(y, TOK * LDY);
    for (int64_t i = 0; i < PAIRS * N; i++)
        want[i / N / USED * LDY + i % N] += p[i / N] * bias[ids[i / N] * N + i % N];
    float *dy = put(d, y, TOK * LDY);
    CHECK_OK(
        cu_moe_bias(d->s, dy, LDY, put(d, bias, E * N), di, put(d, p, PAIRS), TOK, USED, N, &e));
    compare(d, "biases of down", dy, want, TOK * LDY, F32_TOL);
    float *own[] = {y, bias, p};
    for (int i = 0; i < 3; i++) free(own[i]);
}

/* Tests scaling of queries by position, with positions in any order. */
static void test_temper(struct dev *d) {
    enum { ROWS = 5, N = 37 };
    static const int32_t pos[ROWS] = {0, 7, 8, 4095, 70000};
    struct err e;
    float *x = randoms(ROWS * N, 2), *want = copy_of(x, ROWS * N);
    for (int64_t i = 0; i < ROWS * N; i++)
        want[i] *= (float)(1 + 0.1 * log(floor((pos[i / N] + 1) / 8.0) + 1));
    float *dx = put(d, x, ROWS * N);
    const int32_t *at = dev_put(d, pos, sizeof pos);
    CHECK_OK(cu_temper(d->s, dx, ROWS, N, at, 0.1f, 8, 1, &e));
    compare(d, "temper", dx, want, ROWS * N, F32_TOL);
    free(x);
}

/* Tests factors shared by adjacent values, clamps, and heads that are truncated or padded. */
static void test_factors(struct dev *d) {
    enum { ROWS = 3, HEADS = 5, N = 12, M = 8, ALL = ROWS * HEADS * N, LESS = ROWS * HEADS * M };
    struct err e;
    float *x = randoms(ALL, 4), *g = randoms(ROWS * HEADS, 8), *cut = randoms(LESS, 1);
    float *filled = copy_of(x, ALL), *clamped = copy_of(x, ALL);
    for (int f = CU_FACTOR_VALUE; f <= CU_FACTOR_SOFTPLUS; f++) {
        float *dx = put(d, x, ALL), *want = copy_of(x, ALL);
        for (int64_t i = 0; i < ALL; i++) {
            const double v = (double)g[i / N];
            want[i] = (float)((double)x[i] * (f == CU_FACTOR_VALUE     ? v
                                              : f == CU_FACTOR_SIGMOID ? sigmoid(v)
                                                                       : log1p(exp(v))));
        }
        CHECK_OK(cu_mul(d->s, dx, put(d, g, ROWS * HEADS), ALL, N, f, &e));
        compare(d, "factors", dx, want, ALL, F32_TOL);
    }
    float *dx = put(d, x, ALL), *dm = space(d, LESS), *dn = space(d, ALL);
    CHECK_OK(cu_fit_heads(d->s, dx, dm, LESS, N, M, &e));
    CHECK_OK(cu_fit_heads(d->s, dm, dn, ALL, M, N, &e));
    CHECK_OK(cu_clamp(d->s, dx, ALL, 1.5f, &e));
    for (int64_t i = 0; i < ALL; i++) {
        clamped[i] = (float)fmax(-1.5, fmin((double)x[i], 1.5));
        if (i % N < M)
            cut[i / N * M + i % N] = x[i];
        else
            filled[i] = 0;
    }
    compare(d, "clamped", dx, clamped, ALL, 0);
    compare(d, "heads cut", dm, cut, LESS, 0);
    compare(d, "heads filled up", dn, filled, ALL, 0);
    free(x);
    free(g);
}

/* Tests activations of a row's first half times the second half, activations alone, and copies of
 * columns. */
static void test_activations(struct dev *d) {
    static const int64_t sizes[] = {1, 100, 257};
    struct err e;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const int64_t n = sizes[i], rows = 3, all = rows * n, ld = 2 * n + 3;
        float *x = randoms(rows * ld, 4);
        for (int act = 0; act < CU_ACT_COUNT; act++) {
            const struct cu_xielu a = act == CU_ACT_CLAMPED ? limits : xielu;
            float *gated = randoms(all, 1), *alone = randoms(all, 1), *part = randoms(all, 1);
            for (int64_t k = 0; k < all; k++) {
                const float *row = x + k / n * ld;
                const double f = act_of(act, (double)row[k % n]);
                const double up = (double)row[n + 3 + k % n], most = (double)limits.eps;
                gated[k] =
                    (float)(f * (act == CU_ACT_CLAMPED ? fmax(-most, fmin(up, most)) + 1 : up));
                alone[k] = (float)f;
                part[k] = row[3 + k % n];
            }
            float *dx = put(d, x, rows * ld);
            void *o[3] = {space(d, all), space(d, all), space(d, all)};
            CHECK_OK(cu_act_rows(d->s, dx, ld, dx + n + 3, ld, o[0], rows, n, act, a, &e));
            CHECK_OK(cu_act_rows(d->s, dx, ld, NULL, 0, o[1], rows, n, act, a, &e));
            CHECK_OK(cu_copy_rows(d->s, dx + 3, ld, o[2], rows, n, &e));
            compare(d, "gated activation", o[0], gated, all, F32_TOL);
            compare(d, "activation", o[1], alone, all, F32_TOL);
            compare(d, "columns", o[2], part, all, 0);
        }
        free(x);
    }
}

/* Compares other routers with their formulas in models/ops.def, computed in double. */
static void router_case(struct dev *d, int score, int n_experts, int n_used, int groups, int top,
                        bool keep, bool prefers) {
    enum { TOKENS = 5 };
    static const double MARGIN = 0.3; /* a few experts are within it */
    struct err e;
    float *x = randoms(TOKENS * n_experts, 3), *bias = randoms(n_experts, 1);
    float *prefer = randoms(n_experts, 0.5f), *want_w = xcalloc((size_t)(TOKENS * n_used), 4);
    int32_t *want = xcalloc((size_t)(TOKENS * n_used), 4),
            *got = xcalloc((size_t)(TOKENS * n_used), 4);
    double *p = xcalloc((size_t)n_experts, sizeof *p), *by = xcalloc((size_t)n_experts, sizeof *by);
    for (int t = 0; t < TOKENS; t++) {
        double sum = 0, all = 0, mixed[8] = {0};
        for (int i = 0; i < n_experts; i++) {
            p[i] = (double)x[t * n_experts + i] + (double)bias[i];
            if (score == CU_SCORE_SOFTMAX) p[i] = exp(p[i]);
            if (score == CU_SCORE_SIGMOID) p[i] = sigmoid(p[i]);
            all += p[i];
        }
        for (int i = 0; i < n_experts; i++) {
            if (score == CU_SCORE_SOFTMAX) p[i] /= all;
            by[i] = p[i] + (prefers ? (double)prefer[i] : 0);
        }
        for (int drop = groups; drop > top && groups; drop--) { /* drops the worst group */
            int worst = -1;
            double least = 0;
            for (int g = 0; g < groups; g++) {
                double a = (double)-INFINITY, b = a;
                for (int i = g * (n_experts / groups); i < (g + 1) * (n_experts / groups); i++)
                    if (by[i] > a)
                        b = a, a = by[i];
                    else if (by[i] > b)
                        b = by[i];
                const double good = score == CU_SCORE_SOFTMAX ? a : a + b;
                if (a > (double)-INFINITY && (worst < 0 || good < least)) {
                    worst = g;
                    least = good;
                }
            }
            for (int i = 0; i < n_experts / groups; i++)
                by[worst * (n_experts / groups) + i] = (double)-INFINITY;
        }
        for (int u = 0; u < n_used; u++) {
            int best = 0;
            for (int i = 1; i < n_experts; i++)
                if (by[i] > by[best]) best = i;
            want[t * n_used + u] = best;
            for (int i = 0; score == CU_SCORE_MIXER && i < n_experts; i++) {
                const double size = fmax(fabs(p[i]), p[best]);
                if (by[i] > (double)-INFINITY && (p[best] - p[i]) / size <= MARGIN)
                    mixed[u] += exp(p[i] - p[best]);
            }
            by[best] = (double)-INFINITY;
            sum += score == CU_SCORE_LOGIT ? exp(p[best]) : p[best];
        }
        for (int u = 0; u < n_used; u++) {
            const double w = score == CU_SCORE_MIXER ? 1 / mixed[u] : p[want[t * n_used + u]];
            want_w[t * n_used + u] = (float)(2.5 * (score == CU_SCORE_LOGIT ? exp(w) / sum
                                                    : keep                  ? w
                                                                            : w / sum));
        }
    }
    int32_t *de = dev_new(d, (size_t)(TOKENS * n_used) * 4);
    float *dw = space(d, TOKENS * n_used);
    const struct cu_choice c = {.logits = put(d, x, TOKENS * n_experts),
                                .n_experts = n_experts,
                                .n_used = n_used,
                                .expert = de,
                                .weight = dw,
                                .score = score,
                                .keep = keep,
                                .scale = 2.5f,
                                .bias = put(d, bias, n_experts),
                                .prefer = prefers ? put(d, prefer, n_experts) : NULL,
                                .groups = groups,
                                .top = top,
                                .margin = (float)MARGIN};
    CHECK_OK(cu_route(d->s, &c, TOKENS, &e));
    dev_get(d, got, de, (size_t)(TOKENS * n_used) * 4);
    CHECK(memcmp(got, want, (size_t)(TOKENS * n_used) * 4) == 0);
    compare(d, "weights of another router", dw, want_w, TOKENS * n_used, F32_TOL);
    void *own[] = {x, bias, prefer, want, got, p, by};
    for (size_t i = 0; i < COUNT_OF(own); i++) free(own[i]);
}
static void test_routers(struct dev *d) {
    router_case(d, CU_SCORE_SOFTMAX, 60, 4, 0, 0, true, false);
    router_case(d, CU_SCORE_SIGMOID, 64, 6, 8, 3, false, true);
    router_case(d, CU_SCORE_SIGMOID, 256, 8, 8, 4, true, true);
    router_case(d, CU_SCORE_LOGIT, 32, 4, 0, 0, false, false);
    router_case(d, CU_SCORE_SOFTMAX, 40, 3, 4, 2, false, false);
    router_case(d, CU_SCORE_MIXER, 48, 2, 0, 0, true, false);
}

/* Tests norms of groups with separate weights. */
static void test_group_norms(struct dev *d) {
    enum { ROWS = 3, N = 24, GROUPS = 4, ALL = ROWS * GROUPS * N };
    struct err e;
    float *x = randoms(ALL, 3), *w = randoms(GROUPS * N, 1), *want = copy_of(x, ALL);
    for (int64_t r = 0; r < ROWS * GROUPS; r++) {
        double sq = 0;
        for (int i = 0; i < N; i++) sq += (double)x[r * N + i] * (double)x[r * N + i];
        for (int i = 0; i < N; i++)
            want[r * N + i] =
                (float)((double)x[r * N + i] / sqrt(sq / N + 1e-5) * (double)w[r % GROUPS * N + i]);
    }
    float *dx = put(d, x, ALL);
    CHECK_OK(cu_rms(d->s, dx, put(d, w, GROUPS * N), dx, ROWS * GROUPS, N, GROUPS * N, 1e-5f, &e));
    compare(d, "norms of groups", dx, want, ALL, F32_TOL);
    free(x);
    free(w);
}

/* Two sequences in passes of several sizes, with one state buffer each, compared with ref. */
enum { SEQS = 2, PASSES = 3 };
static const int32_t pieces[PASSES][SEQS] = {{3, 1}, {1, 5}, {1, 1}};

static void test_short(struct dev *d) {
    enum { CH = 300, TAPS = 3 };
    struct kern ref;
    struct err e;
    kern_init(&ref, KERN_REF);
    float *w = randoms(CH * TAPS, 1), *tail = xcalloc(SEQS * (TAPS - 1) * CH, sizeof *tail);
    struct cu_seg seg[SEQS] = {{0}, {0}};
    struct cu_short a = {.w = put(d, w, CH * TAPS), .n_ch = CH, .taps = TAPS, .ring_at = 8};
    for (int i = 0; i < SEQS; i++) {
        seg[i].state = space(d, 8 + CH * TAPS);
        CHECK_OK(cu_fill(d->s, seg[i].state, 0, (8 + CH * TAPS) * sizeof(float), &e));
    }
    for (int p = 0; p < PASSES; p++) {
        for (int i = 0; i < SEQS; i++) seg[i].n = pieces[p][i];
        const struct rows r = rows_put(d, seg, SEQS);
        float *u = randoms(r.n * 3 * CH, 1), *want = xcalloc((size_t)(r.n * CH), sizeof *want);
        for (int i = 0; i < SEQS; i++) {
            ref.short_conv(u + seg[i].row * 3 * CH, 3 * CH, w, tail + i * (TAPS - 1) * CH,
                           want + seg[i].row * CH, CH, seg[i].n, 0, CH, CH, TAPS);
            seg[i].pos += seg[i].n;
        }
        a.rows = (struct cu_rows_of){r.seg, SEQS, 5};
        a.u = put(d, u, r.n * 3 * CH);
        a.out = space(d, r.n * CH);
        CHECK_OK(cu_short_conv(d->s, &a, &e));
        compare(d, "short convolution", a.out, want, r.n * CH, F32_TOL);
        free(u);
    }
    free(w);
    free(tail);
    a.taps = CU_MOST_TAPS + 1;
    CHECK_ERR(cu_short_conv(d->s, &a, &e), ERR_USAGE, "taps");
}

/* Mamba 2, or with `first` Mamba 1 of `heads` * dv channels. Twice the f32 bound: errors of the
 * state add up over tokens. */
static void scan_case(struct dev *d, bool first, int heads, int groups, int dim, int dv) {
    struct kern ref;
    struct err e;
    kern_init(&ref, KERN_REF);
    const int64_t all = heads * dv, ns = all * dim, ld = all + 2 * groups * dim;
    float *a = randoms(ns, 1), *bias = randoms(heads, 1), *skip = randoms(all, 1);
    float *state = randoms(SEQS * ns, 1);
    for (int64_t i = 0; i < ns; i++) a[i] = -fabsf(a[i]);
    struct cu_seg seg[SEQS] = {{0}, {0}};
    struct cu_scan s = {.first = first,
                        .n_heads = first ? 1 : heads,
                        .n_groups = groups,
                        .k_dim = dim,
                        .v_dim = first ? all : dv,
                        .x_ld = ld,
                        .bc_ld = ld,
                        .dt_ld = all + 3,
                        .a = put(d, a, ns),
                        .dt_bias = put(d, bias, heads),
                        .skip = put(d, skip, all),
                        .state_at = 5};
    for (int i = 0; i < SEQS; i++) {
        seg[i].state = space(d, 5 + ns);
        CHECK_OK(cu_upload(d->s, seg[i].state + 5, state + i * ns, (uint64_t)ns * 4, &e));
    }
    for (int p = 0; p < PASSES; p++) {
        for (int i = 0; i < SEQS; i++) seg[i].n = pieces[p][i];
        const struct rows r = rows_put(d, seg, SEQS);
        float *u = randoms(r.n * ld, 1), *dt = randoms(r.n * s.dt_ld, 2);
        float *out = xcalloc((size_t)(r.n * all), 4), *keep = xcalloc((size_t)(r.n * heads), 4),
              *step = xcalloc((size_t)(r.n * heads), 4), *flat = xcalloc((size_t)(r.n * all), 4),
              *xs = xcalloc((size_t)(r.n * all), 4);
        for (int64_t t = 0; t < r.n; t++) {
            memcpy(flat + t * all, dt + t * s.dt_ld, (size_t)all * 4);
            memcpy(xs + t * all, u + t * ld, (size_t)all * 4);
            for (int h = 0; h < heads; h++) {
                const double x = (double)dt[t * s.dt_ld + h] + (double)bias[h];
                step[t * heads + h] = (float)(x > 20 ? x : log1p(exp(x)));
                keep[t * heads + h] = expf(a[h] * step[t * heads + h]);
            }
        }
        for (int i = 0; i < SEQS; i++) {
            const int64_t r0 = seg[i].row;
            const float *b = u + r0 * ld + all;
            float *st = state + i * ns;
            if (first)
                ref.mamba1_rows(st, a, skip, xs + r0 * all, flat + r0 * all, out + r0 * all, all, b,
                                b + dim, ld, seg[i].n, dim, 0, all);
            for (int h = 0; h < heads && !first; h++) {
                const float *bg = b + h / (heads / groups) * dim;
                ref.mamba2_rows(st + h * dv * dim, bg, bg + groups * dim, ld,
                                xs + r0 * all + h * dv, all, out + r0 * all + h * dv, all,
                                keep + r0 * heads + h, step + r0 * heads + h, heads, skip[h],
                                seg[i].n, dim, 0, dv);
            }
            seg[i].pos += seg[i].n;
        }
        s.rows = (struct cu_rows_of){r.seg, SEQS, 5};
        s.x = put(d, u, r.n * ld);
        s.b = s.x + all;
        s.dt = put(d, dt, r.n * s.dt_ld);
        s.out = space(d, r.n * all);
        CHECK_OK(cu_scan_rows(d->s, &s, &e));
        compare(d, "scan", s.out, out, r.n * all, 2 * F32_TOL);
        for (int i = 0; i < SEQS; i++)
            compare(d, "its state", seg[i].state + 5, copy_of(state + i * ns, ns), ns, 2 * F32_TOL);
        float *own[] = {u, dt, keep, step, flat, xs};
        for (int i = 0; i < 6; i++) free(own[i]);
    }
    float *own[] = {a, bias, skip, state};
    for (int i = 0; i < 4; i++) free(own[i]);
    s.k_dim = 300;
    CHECK_ERR(cu_scan_rows(d->s, &s, &e), ERR_USAGE, "300 values per row");
}
static void test_scans(struct dev *d) {
    scan_case(d, false, 6, 2, 16, 8);
    scan_case(d, false, 2, 1, 128, 33);
    scan_case(d, false, 1, 1, 250, 3);
    scan_case(d, true, 1, 1, 16, 70);
    scan_case(d, true, 1, 1, 20, 5);
}

/* Kimi delta attention, with the sequences of scan_case. */
static void kda_case(struct dev *d, int heads, int dim, int dv) {
    struct kern ref;
    struct err e;
    kern_init(&ref, KERN_REF);
    const int64_t ld = heads * (2 * dim + dv), ns = heads * dv * dim, no = heads * dv,
                  nf = heads * dim;
    float *wa = randoms(heads, 1), *dt = randoms(nf, 1), *state = randoms(SEQS * ns, 1);
    for (int h = 0; h < heads; h++) wa[h] = -fabsf(wa[h]);
    struct cu_seg seg[SEQS] = {{0}, {0}};
    struct cu_kda a = {.n_heads = heads,
                       .k_dim = dim,
                       .v_dim = dv,
                       .eps = 1e-6f,
                       .scale = 0.25f,
                       .a = put(d, wa, heads),
                       .dt = put(d, dt, nf),
                       .state_at = 3};
    for (int i = 0; i < SEQS; i++) {
        seg[i].state = space(d, 3 + ns);
        CHECK_OK(cu_upload(d->s, seg[i].state + 3, state + i * ns, (uint64_t)ns * 4, &e));
    }
    for (int p = 0; p < PASSES; p++) {
        for (int i = 0; i < SEQS; i++) seg[i].n = pieces[p][i];
        const struct rows r = rows_put(d, seg, SEQS);
        float *u = randoms(r.n * ld, 1), *f = randoms(r.n * nf, 2), *raw = randoms(r.n * heads, 2);
        float *b = xcalloc((size_t)(r.n * heads), 4), *out = xcalloc((size_t)(r.n * no), 4);
        a.u = put(d, u, r.n * ld);
        a.f = put(d, f, r.n * nf);
        a.beta = put(d, raw, r.n * heads);
        a.out = space(d, r.n * no);
        a.n_tok = r.n;
        a.rows = (struct cu_rows_of){r.seg, SEQS, 5};
        for (int64_t t = 0; t < r.n; t++) {
            for (int h = 0; h < 2 * heads; h++)
                ref.l2_norm(u + t * ld + h * dim, dim, a.eps, h < heads ? a.scale : 1.0f);
            for (int h = 0; h < heads; h++)
                b[t * heads + h] = (float)sigmoid((double)raw[t * heads + h]);
            for (int64_t i = 0; i < nf; i++) {
                const double x = (double)f[t * nf + i] + (double)dt[i];
                f[t * nf + i] = (float)exp((double)wa[i / dim] * (x > 20 ? x : log1p(exp(x))));
            }
        }
        for (int i = 0; i < SEQS; i++) {
            const int64_t r0 = seg[i].row;
            for (int h = 0; h < heads; h++)
                ref.kda_rows(state + i * ns + h * dv * dim, u + r0 * ld + h * dim,
                             u + r0 * ld + (heads + h) * dim, ld,
                             u + r0 * ld + 2 * heads * dim + h * dv, ld, out + r0 * no + h * dv, no,
                             f + r0 * nf + h * dim, nf, b + r0 * heads + h, heads, seg[i].n, dim, 0,
                             dv);
            seg[i].pos += seg[i].n;
        }
        CHECK_OK(cu_kda_rows(d->s, &a, &e));
        compare(d, "Kimi delta attention", a.out, out, r.n * no, 2 * F32_TOL);
        for (int i = 0; i < SEQS; i++)
            compare(d, "its state", seg[i].state + 3, copy_of(state + i * ns, ns), ns, 2 * F32_TOL);
        float *own[] = {u, f, raw, b};
        for (int i = 0; i < 4; i++) free(own[i]);
    }
    float *own[] = {wa, dt, state};
    for (int i = 0; i < 3; i++) free(own[i]);
}
static void test_kda(struct dev *d) {
    kda_case(d, 3, 16, 16);
    kda_case(d, 1, 128, 33);
    kda_case(d, 1, 140, 5);
}

int main(void) {
    struct dev d;
    if (!dev_open(&d)) return check_skip("no CUDA device");
    EACH_ORDER(o) {
        order_now = o;
        rng_seed(&rng, 7);
        RUN_DEV(test_layer_norms, &d);
        RUN_DEV(test_activations, &d);
        RUN_DEV(test_temper, &d);
        RUN_DEV(test_factors, &d);
        RUN_DEV(test_experts, &d);
        RUN_DEV(test_routers, &d);
        RUN_DEV(test_group_norms, &d);
        RUN_DEV(test_short, &d);
        RUN_DEV(test_scans, &d);
        RUN_DEV(test_kda, &d);
        if (sums[o] != sums[0]) {
            fprintf(stderr, "order %u of threads gives other bits\n", o);
            check_n_failed++;
        }
    }
    dev_close(&d);
    return check_done();
}
