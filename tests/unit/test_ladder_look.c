// SPDX-License-Identifier: MIT
/* tests/unit/test_ladder_look.c - early decisions of comparisons: their error rates on simulated
 * files whose true divergences are known. */
#include <math.h>

#include "base/rng.h"
#include "make/size_ladder.h"
#include "tests/check.h"

enum { WINDOWS = 100, PER_WINDOW = 255, RUNS = 20000 };

/* How window means of two files vary: a common factor exp(text * z) for the difficulty of the
 * window, and a factor of each file. The second file's mean is `ratio` times the first one's. */
struct world {
    double ratio, text, own;
    bool skewed; /* the files' factors are log-normal with mean 1; otherwise 1 + own * z */
};

static double factor(const struct world *w, struct rng *rng) {
    const double z = (double)rng_normal(rng);
    return w->skewed ? exp(w->own * z - w->own * w->own / 2) : 1 + w->own * z;
}

/* Compares two files as hone make does, with tails in proportion to the means. Returns the decision
 * and the number of windows that it took. */
static enum look compare(const struct world *w, struct rng *rng, int64_t *windows) {
    double sum[3] = {0}, squares = 0;
    for (int64_t i = 1, at = 0; i <= WINDOWS && at < LADDER_LOOKS; i++) {
        const double text = exp(w->text * (double)rng_normal(rng));
        const double a = text * factor(w, rng), b = w->ratio * text * factor(w, rng), d = a - b;
        sum[0] += a, sum[1] += b, sum[2] += d;
        squares += d * d;
        if (i != ladder_looks[at]) continue;
        const double n = (double)i, mean = sum[2] / n, var = (squares / n - mean * mean) / (n - 1);
        const struct verdict_in v = {.what = "a",
                                     .than = "b",
                                     .kld = sum[0] / n,
                                     .kld_plain = sum[1] / n,
                                     .p99 = 5 * sum[0] / n,
                                     .p99_plain = 20 * sum[1] / n,
                                     .p999 = 9 * sum[0] / n,
                                     .p999_plain = 40 * sum[1] / n,
                                     .diff = mean,
                                     .diff_stderr = sqrt(var),
                                     .n_tokens = i * PER_WINDOW,
                                     .n_windows = i,
                                     .of = WINDOWS};
        const enum look found = ladder_look(&v);
        *windows = i;
        if (found != LOOK_MORE) return found;
        at++;
    }
    return LOOK_MORE;
}

/* Counts the decisions in RUNS comparisons; *windows: the mean number that they took. */
static void many(const struct world *w, int count[3], double *windows) {
    struct rng rng = {20260101};
    *windows = 0;
    count[LOOK_MORE] = count[LOOK_BETTER] = count[LOOK_WORSE] = 0;
    for (int i = 0; i < RUNS; i++) {
        int64_t n = 0;
        count[compare(w, &rng, &n)]++;
        *windows += (double)n / RUNS;
    }
}

/* Equal files: any decision is an error. The stated rate is 0.1 %: at most 20 of 20,000 on average,
 * 34 with three standard errors. The tails allow every decision. */
static void test_error_rate(void) {
    static const struct world w[] = {{.ratio = 1, .text = .3, .own = .1},
                                     {.ratio = 1, .text = 0, .own = .3},
                                     {.ratio = 1, .text = .5, .own = .4, .skewed = true}};
    for (size_t i = 0; i < COUNT_OF(w); i++) {
        int n[3];
        double windows;
        many(&w[i], n, &windows);
        const int wrong = n[LOOK_BETTER] + n[LOOK_WORSE];
        printf("equal files %d: %d of %d decided\n", (int)i, wrong, RUNS);
        CHECK(wrong <= RUNS * LADDER_ERROR + 3 * sqrt(RUNS * LADDER_ERROR));
        if (!w[i].skewed && w[i].text <= 0) CHECK(wrong > 0); /* the test can see errors */
    }
}

/* Files that differ as mixes and presets do are told apart soon, and always the right way. */
static void test_power(void) {
    int n[3];
    double windows;
    struct world w = {.ratio = 2, .text = .3, .own = .1};
    many(&w, n, &windows);
    printf("half the divergence: %d of %d decided, %.1f windows\n", n[LOOK_BETTER], RUNS, windows);
    CHECK(n[LOOK_BETTER] == RUNS && n[LOOK_WORSE] == 0);
    CHECK(windows < 12);
    w.ratio = .8;
    many(&w, n, &windows);
    CHECK(n[LOOK_WORSE] > RUNS * .99 && n[LOOK_BETTER] == 0);
    w.ratio = 1.02; /* hardly any difference: measured to the end or at least for long */
    many(&w, n, &windows);
    CHECK(n[LOOK_MORE] > RUNS / 2 && n[LOOK_WORSE] <= 5);
}

/* A lower mean does not decide while the tail may be larger; other numbers of windows are no
 * looks. */
static void test_tail(void) {
    struct verdict_in v = {.what = "a",
                           .than = "b",
                           .kld = 1,
                           .kld_plain = 2,
                           .p99 = 6,
                           .p99_plain = 10,
                           .p999 = 10,
                           .p999_plain = 20,
                           .diff = -1,
                           .diff_stderr = .01,
                           .n_tokens = 8 * 255,
                           .n_windows = 8,
                           .of = 33};
    CHECK(ladder_look(&v) == LOOK_BETTER); /* two standard errors of 20 positions: 31 % */
    v.p99 = 7;
    CHECK(ladder_look(&v) == LOOK_MORE);
    v.p99 = 6;
    v.p999 = 45; /* 2 positions: larger by more than 99 % */
    CHECK(ladder_look(&v) == LOOK_MORE);
    v.p999 = 10;
    v.n_windows = 9;
    CHECK(ladder_look(&v) == LOOK_MORE);
    v.n_windows = 8;
    v.diff_stderr = 0;
    CHECK(ladder_look(&v) == LOOK_MORE);
    v.diff = 1, v.diff_stderr = .2;
    CHECK(ladder_look(&v) == LOOK_MORE);
    v.diff_stderr = .1; /* worse: the tail does not matter */
    CHECK(ladder_look(&v) == LOOK_WORSE);
}

int main(void) {
    RUN(test_error_rate);
    RUN(test_power);
    RUN(test_tail);
    return check_done();
}
