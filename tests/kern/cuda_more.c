// SPDX-License-Identifier: MIT
/* tests/kern/cuda_more.c - CUDA operators that only some architectures have, against double
 * arithmetic here: LayerNorms, activations, routers. As cuda_ops.c otherwise. */
#include "tests/kern/cuda_vec.h"

/* Groups far from 0, whose mean is much larger than their spread; weights that span one group or
 * several. */
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
        /* x has an error of half a unit of 10 in its last place, 4.8e-7, and is spread over 1.7 */
        compare(d, "layer norm without weights", dy, bare, all, 2 * F32_TOL);
        compare(d, "layer norm in place", dx, want, all, 2 * F32_TOL);
        float *own[] = {x, w, b};
        for (int k = 0; k < 3; k++) free(own[k]);
    }
}

static double act_of(int act, double x) {
    if (act == CU_ACT_SILU) return x * sigmoid(x);
    if (act == CU_ACT_GELU)
        return x / 2 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    if (act == CU_ACT_GELU_ERF) return x / 2 * (1 + erf(x / sqrt(2)));
    return x > 0 ? x * x : 0;
}

/* Activations of a row's first half times its second, or alone; columns of rows. */
static void test_activations(struct dev *d) {
    static const int64_t sizes[] = {1, 100, 257};
    struct err e;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const int64_t n = sizes[i], rows = 3, all = rows * n, ld = 2 * n + 3;
        float *x = randoms(rows * ld, 4);
        for (int act = 0; act < CU_ACT_COUNT; act++) {
            float *gated = randoms(all, 1), *alone = randoms(all, 1), *part = randoms(all, 1);
            for (int64_t k = 0; k < all; k++) {
                const float *row = x + k / n * ld;
                const double f = act_of(act, (double)row[k % n]);
                gated[k] = (float)(f * (double)row[n + 3 + k % n]);
                alone[k] = (float)f;
                part[k] = row[3 + k % n];
            }
            float *dx = put(d, x, rows * ld);
            void *o[3] = {space(d, all), space(d, all), space(d, all)};
            CHECK_OK(cu_act_rows(d->s, dx, ld, dx + n + 3, ld, o[0], rows, n, act, &e));
            CHECK_OK(cu_act_rows(d->s, dx, ld, NULL, 0, o[1], rows, n, act, &e));
            CHECK_OK(cu_copy_rows(d->s, dx + 3, ld, o[2], rows, n, &e));
            compare(d, "gated activation", o[0], gated, all, F32_TOL);
            compare(d, "activation", o[1], alone, all, F32_TOL);
            compare(d, "columns", o[2], part, all, 0);
        }
        free(x);
    }
}

/* Other routers, against their formula in models/ops.def in double. */
static void router_case(struct dev *d, int score, int n_experts, int n_used, int groups, int top,
                        bool keep, bool prefers) {
    enum { TOKENS = 5 };
    struct err e;
    float *x = randoms(TOKENS * n_experts, 3), *bias = randoms(n_experts, 1);
    float *prefer = randoms(n_experts, 0.5f), *want_w = xcalloc((size_t)(TOKENS * n_used), 4);
    int32_t *want = xcalloc((size_t)(TOKENS * n_used), 4),
            *got = xcalloc((size_t)(TOKENS * n_used), 4);
    double *p = xcalloc((size_t)n_experts, sizeof *p), *by = xcalloc((size_t)n_experts, sizeof *by);
    for (int t = 0; t < TOKENS; t++) {
        double sum = 0, all = 0;
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
        for (int drop = groups; drop > top && groups; drop--) { /* the worst group goes */
            int worst = -1;
            double least = 0;
            for (int g = 0; g < groups; g++) {
                double a = (double)-INFINITY, b = a;
                for (int i = g * (n_experts / groups); i < (g + 1) * (n_experts / groups); i++)
                    if (by[i] > a)
                        b = a, a = by[i];
                    else if (by[i] > b)
                        b = by[i];
                if (a > (double)-INFINITY && (worst < 0 || a + b < least)) {
                    worst = g;
                    least = a + b;
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
            by[best] = (double)-INFINITY;
            sum += score == CU_SCORE_LOGIT ? exp(p[best]) : p[best];
        }
        for (int u = 0; u < n_used; u++) {
            const double w = p[want[t * n_used + u]];
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
                                .top = top};
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
}
int main(void) {
    struct dev d;
    if (!dev_open(&d)) return check_skip("no CUDA device");
    EACH_ORDER(o) {
        order_now = o;
        rng_seed(&rng, 7);
        RUN_DEV(test_layer_norms, &d);
        RUN_DEV(test_activations, &d);
        RUN_DEV(test_routers, &d);
        if (sums[o] != sums[0]) {
            fprintf(stderr, "order %u of threads gives other bits\n", o);
            check_n_failed++;
        }
    }
    dev_close(&d);
    return check_done();
}
