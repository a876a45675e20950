// SPDX-License-Identifier: MIT
/* tests/unit/test_fp_math.c - log, pow, sin, cos, tanh and erf compared with the C library's long
 * double functions: relative errors over their ranges, and special values. */
#include <math.h>
#include <stdbool.h>

#include "base/fp.h"
#include "base/rng.h"
#include "tests/check.h"

/* Bounds are in 2^-53: half an ulp of a double just below a power of two. */
static const double half_ulp = 0x1p-53;

struct worst {
    double error, at, by;
};
/* Keeps the largest error of a result, relative to `unit` or, if that is 0, to the value. */
static void note(struct worst *w, double got, long double want, long double unit, double x,
                 double y) {
    const long double d = fabsl((long double)got - want) / (unit > 0 ? unit : fabsl(want));
    if (!((double)d <= w->error)) *w = (struct worst){(double)d, x, y};
}
static void within(const char *name, const struct worst *w, double most) {
    if (!(w->error <= most))
        CHECK_FAIL("%s: error %.3g at %.17g %.17g", name, w->error, w->at, w->by);
}
static double between(struct rng *r, double lo, double hi) {
    return lo + (hi - lo) * rng_unit(r);
}

static void test_log(void) {
    struct rng r;
    struct worst w = {0}, w1 = {0};
    rng_seed(&r, 1);
    for (int i = 0; i < 300000; i++) {
        const double x = i % 3 == 0 ? between(&r, 0.4, 2.5)
                         : i % 3 == 1
                             ? exp(between(&r, -740, 709))
                             : 1 + ldexp(between(&r, -1, 1), -(int)(rng_unit(&r) * 40) - 1);
        if (x != 1) note(&w, fp_log(x), logl((long double)x), 0, x, 0);
        const double y = i & 1 ? x : x - 1;
        if (y > -1 && y != 0) note(&w1, fp_log1p(y), log1pl((long double)y), 0, y, 0);
    }
    within("log", &w, 1.1 * half_ulp);
    within("log1p", &w1, 5 * half_ulp);
    CHECK(fp_log(1) == 0 && fp_log(0) == -HUGE_VAL && fp_log(HUGE_VAL) == HUGE_VAL);
    CHECK(isnan(fp_log(-1)) && isnan(fp_log((double)NAN)) && isnan(fp_log1p(-2)));
    CHECK(fp_log1p(-1) == -HUGE_VAL && fp_log1p(0) == 0 && signbit(fp_log1p(-0.0)));
    CHECK(fp_log1p(1e-300) == 1e-300 && fp_log1p(HUGE_VAL) == HUGE_VAL);
    const double least = 0x1p-1074;
    CHECK(fabs(fp_log(least) - -744.4400719213812) < 1e-12);
}

static void test_pow(void) {
    struct rng r;
    struct worst w = {0};
    rng_seed(&r, 2);
    for (int i = 0; i < 300000; i++) {
        const double x = i & 1 ? exp(between(&r, -20, 20)) : between(&r, 0.5, 2);
        const double most = 700 / fmax(0.01, fabs(log(x))), y = between(&r, -most, most);
        const double steps = 1 + fabs(y * log(x)) / 16; /* the error grows with the exponent */
        note(&w, fp_pow(x, y), powl((long double)x, (long double)y),
             powl((long double)x, (long double)y) * (long double)steps, x, y);
    }
    within("pow", &w, 3 * half_ulp);
    /* bases of rotary embeddings */
    for (int i = 0; i < 64; i++)
        CHECK(fabs(fp_pow(10000, -2.0 * i / 128) / (double)powl(10000, -2.0L * i / 128) - 1) <
              4e-16);
    CHECK(fp_pow(0, 0) == 1 && fp_pow(0, 2) == 0 && fp_pow(0, -1) == HUGE_VAL);
    CHECK(fp_pow(2, 2000) == HUGE_VAL && fp_pow(2, -2000) == 0 && fp_pow(0.5, 2000) == 0);
    CHECK(fp_pow(1, (double)NAN) == 1 && isnan(fp_pow(-2, 3)) && isnan(fp_pow((double)NAN, 1)));
    CHECK(fp_pow(HUGE_VAL, 1) == HUGE_VAL && fp_pow(HUGE_VAL, -1) == 0);
}

static void test_sin_cos(void) {
    struct rng r;
    struct worst near = {0}, far = {0};
    rng_seed(&r, 3);
    for (int i = 0; i < 300000; i++) {
        const double x = between(&r, -1, 1) * (i & 1 ? 10 : 2e8);
        struct worst *w = fabs(x) < 10 ? &near : &far;
        const long double s = sinl((long double)x), c = cosl((long double)x);
        note(w, fp_sin(x), s, i & 1 ? 0 : 1, x, 0);
        note(w, fp_cos(x), c, i & 1 ? 0 : 1, x, 0);
    }
    within("sin, cos", &near, 3 * half_ulp);
    within("sin, cos of large angles", &far, 3 * half_ulp);
    for (int k = 1; k < 1000; k++) { /* close to a root, where digits cancel */
        const double x = k * 1.5707963267948966;
        const long double want = k & 1 ? cosl((long double)x) : sinl((long double)x);
        const double got = k & 1 ? fp_cos(x) : fp_sin(x);
        if (!(fabsl((long double)got - want) <= 1e-15L * fabsl(want))) CHECK_FAIL("root %d", k);
    }
    CHECK(fp_sin(0) == 0 && fp_cos(0) == 1 && fabs(fp_sin(1e300)) <= 1 && fabs(fp_cos(-1e18)) <= 1);
    CHECK(isnan(fp_sin(HUGE_VAL)) && isnan(fp_cos(-HUGE_VAL)) && isnan(fp_sin((double)NAN)));
}

static void test_tanh_erf(void) {
    struct rng r;
    struct worst t = {0}, e = {0};
    rng_seed(&r, 4);
    for (int i = 0; i < 300000; i++) {
        const double x = between(&r, -1, 1) * (i % 3 == 0 ? 1 : i % 3 == 1 ? 7 : 1e-3);
        if (x == 0) continue;
        note(&t, fp_tanh(x), tanhl((long double)x), 0, x, 0);
        note(&e, fp_erf(x), erfl((long double)x), 0, x, 0);
    }
    within("tanh", &t, 1e-12);
    within("erf", &e, 1e-14);
    CHECK(fp_tanh(0) == 0 && fp_tanh(HUGE_VAL) == 1 && fp_tanh(-800) == -1);
    CHECK(fp_tanh(1e-300) == 1e-300 && isnan(fp_tanh((double)NAN)));
    CHECK(fp_erf(0) == 0 && fp_erf(HUGE_VAL) == 1 && fp_erf(-6) == -1 &&
          isnan(fp_erf((double)NAN)));
}

/* Results as floats are rounded correctly, except where the exact value is close to a tie. */
static void test_floats(void) {
    struct rng r;
    int wrong = 0;
    rng_seed(&r, 5);
    for (int i = 0; i < 200000; i++) {
        const float x = (float)between(&r, -10, 10);
        const long double e = expl((long double)x);
        wrong += fp_expf(x) != (float)e;
        wrong += fp_tanhf(x) != (float)tanhl((long double)x);
        wrong += fp_softplusf(x) != (float)log1pl(e);
    }
    CHECK(wrong == 0);
    for (float x = -120; x < 100; x += 0x1p-6f)
        if (fp_expf(x) != (float)expl((long double)x)) CHECK_FAIL("expf %g", (double)x);
    CHECK(fp_expf(0) == 1 && fp_expf(INFINITY) == INFINITY && fp_expf(-INFINITY) == 0);
    CHECK(isnan(fp_expf(NAN)) && fp_expf(1e30f) == INFINITY && fp_expf(-1e30f) == 0);
    CHECK((double)fp_sigmoidf(0) == 0.5 && fp_sigmoidf(-200) == 0 && fp_sigmoidf(200) == 1);
    CHECK(fp_softplusf(25) == 25 && fp_softplusf(-200) >= 0);
}

int main(void) {
    RUN(test_log);
    RUN(test_pow);
    RUN(test_sin_cos);
    RUN(test_tanh_erf);
    RUN(test_floats);
    return check_done();
}
