// SPDX-License-Identifier: MIT
/* tests/unit/test_sample.c - runtime/generate/sample.c: the candidates that each step leaves, and
 * the distribution of draws (chi-square with a fixed seed). */
#include "runtime/generate/sample.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/rng.h"
#include "tests/check.h"
#include "runtime/engine/logits.h"

static const struct sample_opts neutral = {1.0f, 0, 1.0f, 0.0f, 1.0f, 0, 0.0f, 0.0f};

static int32_t pick(const struct sample_opts *o, const float *l, int n, uint64_t seed) {
    struct sampler *s = sampler_new(o, n, seed);
    int32_t id = sampler_pick(s, l, NULL, 0);
    sampler_free(s);
    return id;
}

static void test_greedy(void) {
    const float l[6] = {1, 5, 2, 5, NAN, -INFINITY};
    struct sample_opts o = neutral;
    o.temp = 0;
    for (uint64_t seed = 0; seed < 20; seed++)
        CHECK_EQ_I64(pick(&o, l, 6, seed), 1); /* ties: lower id */
    o.temp = 1;
    o.top_k = 1;
    for (uint64_t seed = 0; seed < 20; seed++) CHECK_EQ_I64(pick(&o, l, 6, seed), 1);
}

static void test_impossible(void) {
    const float l[3] = {NAN, -INFINITY, INFINITY};
    CHECK_EQ_I64(pick(&neutral, l, 3, 1), 0);
    const float one[3] = {NAN, 0.5f, -INFINITY};
    for (uint64_t seed = 0; seed < 20; seed++) CHECK_EQ_I64(pick(&neutral, one, 3, seed), 1);
}

/* Returns the chi-square of n draws compared with p over the allowed ids; other ids must not
 * occur. */
static double chi_square(const struct sample_opts *o, const float *l, int n_vocab, const double *p,
                         int64_t n) {
    int64_t count[16] = {0};
    double chi = 0;
    struct sampler *s = sampler_new(o, n_vocab, 42);
    for (int64_t i = 0; i < n; i++) count[sampler_pick(s, l, NULL, 0)]++;
    sampler_free(s);
    for (int i = 0; i < n_vocab; i++) {
        double want = p[i] * (double)n, d = (double)count[i] - want;
        if (p[i] > 0)
            chi += d * d / want;
        else
            CHECK_EQ_I64(count[i], 0);
    }
    return chi;
}
static void tempered(const float *l, int n, double temp, const int *keep, double *p) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += keep[i] ? exp((double)l[i] / temp) : 0;
    for (int i = 0; i < n; i++) p[i] = keep[i] ? exp((double)l[i] / temp) / sum : 0;
}

/* 0.999 quantile of chi-square: 27.9 with 9 degrees of freedom, 16.3 with 3, 13.8 with 2. */
static void test_distribution(void) {
    const float l[10] = {0.3f, -1.0f, 2.0f, 1.1f, -2.5f, 0.0f, 1.9f, -0.4f, 0.9f, -3.0f};
    const int all[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    double p[10];
    struct sample_opts o = neutral;
    tempered(l, 10, 1.0, all, p);
    CHECK(chi_square(&o, l, 10, p, 50000) < 27.9);
    o.temp = 0.7f;
    tempered(l, 10, 0.7, all, p);
    CHECK(chi_square(&o, l, 10, p, 50000) < 27.9);
    tempered(l, 10, 1.0, all, p); /* the test can fail: a different temperature is detected */
    CHECK(chi_square(&o, l, 10, p, 50000) > 27.9);

    const int top4[10] = {0, 0, 1, 1, 0, 0, 1, 0, 1, 0};
    o = neutral;
    o.top_k = 4;
    tempered(l, 10, 1.0, top4, p);
    CHECK(chi_square(&o, l, 10, p, 50000) < 16.3);

    /* sorted: .320 .290 .130 .107 .059 ...: 0.70 needs three, and 0.35 * .320 keeps three */
    const int top3[10] = {0, 0, 1, 1, 0, 0, 1, 0, 0, 0};
    o = neutral;
    o.top_p = 0.70f;
    tempered(l, 10, 1.0, top3, p);
    CHECK(chi_square(&o, l, 10, p, 50000) < 13.8);
    o = neutral;
    o.min_p = 0.35f;
    CHECK(chi_square(&o, l, 10, p, 50000) < 13.8);
}

static void test_penalty(void) {
    const float l[4] = {2.0f, 1.9f, -1.0f, -1.05f};
    const int32_t last[5] = {2, 0, 0, 77, -1}; /* out-of-range ids are ignored */
    struct sample_opts o = neutral;
    o.temp = 0;
    o.repeat_penalty = 1.2f;
    o.repeat_last_n = 5;
    struct sampler *s = sampler_new(&o, 4, 1);
    CHECK_EQ_I64(sampler_pick(s, l, last, 5), 1); /* 2.0 / 1.2 < 1.9; applied only once */
    CHECK_EQ_I64(sampler_pick(s, l, last, 0), 0);
    CHECK_EQ_I64(sampler_pick(s, l, last, 1), 0); /* only id 2 was seen */
    sampler_free(s);
    const float neg[2] = {-1.0f, -1.1f}; /* negative logits must decrease, too */
    const int32_t zero[1] = {0};
    s = sampler_new(&o, 2, 1);
    CHECK_EQ_I64(sampler_pick(s, neg, zero, 1), 1);
    sampler_free(s);
    /* presence once, frequency per occurrence */
    const float f[3] = {5.0f, 4.9f, 3.5f};
    const int32_t said[3] = {1, 0, 1};
    o = (struct sample_opts){0, 0, 1, 0, 1, 3, 1.0f, 0.5f};
    s = sampler_new(&o, 3, 1);
    CHECK_EQ_I64(sampler_pick(s, f, said, 0), 0);
    CHECK_EQ_I64(sampler_pick(s, f, said, 1), 0); /* 5 is larger than 4.9 - 1.5 */
    CHECK_EQ_I64(sampler_pick(s, f, said, 3), 0); /* 3.5, 2.9 and 3.5: the lower id wins */
    o.presence_penalty = 1.5f;
    sampler_free(s);
    s = sampler_new(&o, 3, 1);
    CHECK_EQ_I64(sampler_pick(s, f, said, 3), 2); /* 3.0, 2.4, 3.5 */
    sampler_free(s);
}

static void test_seed(void) {
    float l[50];
    for (int i = 0; i < 50; i++) l[i] = (float)(i * 7 % 13) * 0.3f;
    struct sampler *a = sampler_new(&neutral, 50, 9), *b = sampler_new(&neutral, 50, 9),
                   *c = sampler_new(&neutral, 50, 10);
    int differ = 0;
    for (int i = 0; i < 100; i++) {
        int32_t x = sampler_pick(a, l, NULL, 0);
        CHECK_EQ_I64(x, sampler_pick(b, l, NULL, 0));
        differ += x != sampler_pick(c, l, NULL, 0);
    }
    CHECK(differ > 50);
    sampler_free(a);
    sampler_free(b);
    sampler_free(c);
}

/* Checks that draws from only the best logits are the same, for every step and combination, with
 * ties. */
static void test_best(void) {
    enum { N = 300, TOKENS = 60 };
    static const struct sample_opts how[] = {{0, 0, 1, 0, 1, 0, 0, 0},
                                             {0, 0, 1, 0, 1.3f, 40, 0, 0},
                                             {0.7f, 20, 0.8f, 0, 1, 0, 0, 0},
                                             {1, 40, 1, 0.05f, 1, 0, 0, 0},
                                             {1.5f, 20, 0.95f, 0, 1.2f, 64, 0, 0},
                                             {1, 5, 1, 0, 3.0f, 8, 0, 0},
                                             {1, 9, 1, 0, 1, 30, 0.5f, 1.5f}};
    struct rng r;
    rng_seed(&r, 4);
    for (size_t h = 0; h < sizeof how / sizeof how[0]; h++) {
        struct sampler *a = sampler_new(&how[h], N, 7), *b = sampler_new(&how[h], N, 7);
        int32_t last[TOKENS];
        for (int t = 0; t < TOKENS; t++) {
            float l[N], best[N];
            int32_t id[N];
            int64_t need = sampler_needs(b, t), n = 0;
            for (int i = 0; i < N; i++) l[i] = rintf(4 * rng_normal(&r)) / 4;
            for (int i = 0; i < 20; i++) l[i] = i % 2 ? NAN : -INFINITY;
            CHECK(need > 0 && need < N);
            for (; n < need; n++) { /* selection */
                int at = -1;
                for (int i = 20; i < N; i++) {
                    bool taken = false;
                    for (int64_t k = 0; k < n; k++) taken |= id[k] == i;
                    if (!taken && (at < 0 || l[i] > l[at])) at = i;
                }
                id[n] = at;
                best[n] = l[at];
            }
            float again[LOGITS_BEST];
            int32_t same[LOGITS_BEST];
            CHECK_EQ_I64(logits_best(l, N, (int32_t)need, same, again), need);
            CHECK(memcmp(same, id, (size_t)need * sizeof *id) == 0);
            CHECK(memcmp(again, best, (size_t)need * sizeof *best) == 0);
            last[t] = sampler_pick(a, l, last, t);
            CHECK_EQ_I64(sampler_pick_best(b, id, best, n, last, t), last[t]);
        }
        sampler_free(a);
        sampler_free(b);
    }
    struct sample_opts all = neutral;
    struct sampler *s = sampler_new(&all, N, 1);
    CHECK_EQ_I64(sampler_needs(s, 10), -1); /* every token may be drawn */
    sampler_free(s);
    all = (struct sample_opts){0, 0, 1, 0, 0.8f, 64, 0, 0};
    s = sampler_new(&all, N, 1);
    CHECK_EQ_I64(sampler_needs(s, 10), -1); /* raised: any token may become the best */
    CHECK_EQ_I64(sampler_needs(s, 0), 1);
    sampler_free(s);
}

int main(void) {
    RUN(test_greedy);
    RUN(test_impossible);
    RUN(test_distribution);
    RUN(test_penalty);
    RUN(test_seed);
    RUN(test_best);
    return check_done();
}
