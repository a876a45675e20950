// SPDX-License-Identifier: MIT
/* bench/feedback.c - time of error feedback per weight, by type and search, on one thread.
 *
 * feedback COLUMNS ROWS [TYPE...]: prints JSON objects, one per line. The first describes the
 * machine: GMAC/s that separate multiplications and additions reach in AVX2 registers, GMAC/s of
 * enc_lanes()->product, and GFLOP/s of the factorization. The others are results per type and
 * search: CPU time per weight in microseconds (without setup), the setup's seconds (factorization
 * and choice of the shrinkage), the quadratic error relative to the rows, and a hash of the output,
 * for comparing builds. The moments have log-normal importance, 16 shared causes and no subnormal
 * numbers. GROUP: rows per call; builds from before FEEDBACK_GROUP need -DGROUP=8. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "kernels/kern.h"
#include "quantize/enc/super.h"
#include "quantize/fb_tensor.h"
#include "quantize/feedback.h"

#ifdef GROUP
#define FEEDBACK_BEFORE
#else
#define GROUP FEEDBACK_GROUP
#endif
enum { CAUSES = 16, TOKENS = 4096, REPS = 3 };

static float *x;
static struct factor whole; /* R without damping or shrinkage, for errors */
static int64_t n, n_rows;

/* Prints the error and exits with 1. */
static void stop(const struct err *e) {
    fprintf(stderr, "feedback: %s\n", e->msg);
    exit(1);
}

/* Returns the processor time of this thread in seconds. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns n x n second moments of correlated inputs. */
static float *fill_moments(struct rng *r) {
    float *mix = xcalloc((size_t)(CAUSES * n), sizeof *mix), *sum;
    double *scale = xcalloc((size_t)n, sizeof *scale);
    void *p;
    struct err e;
    if (mem_alloc(&p, (uint64_t)(n * n) * sizeof *sum, "moments", &e)) stop(&e);
    sum = p;
    for (int64_t i = 0; i < CAUSES * n; i++) mix[i] = rng_normal(r);
    for (int64_t i = 0; i < n; i++) scale[i] = exp(0.5 * (double)rng_normal(r));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double s = i == j ? CAUSES : 0;
            for (int k = 0; k < CAUSES; k++) s += (double)mix[k * n + i] * (double)mix[k * n + j];
            sum[i * n + j] = (float)(TOKENS * s * scale[i] * scale[j]);
        }
    free(mix);
    free(scale);
    return sum;
}

/* Copies a row for the encoder; cannot fail. */
static bool load(void *ctx, int64_t row, float *to) {
    (void)ctx;
    memcpy(to, x + row * n, (size_t)n * sizeof *to);
    return true;
}

/* Returns the quadratic error of the encoded rows under the moments, relative to the rows. */
static double error(const uint8_t *enc, enum qtype type) {
    const uint64_t bytes = qtype_row_bytes(type, n);
    float *y = xcalloc((size_t)(n * n_rows), sizeof *y), *s = xcalloc((size_t)n, sizeof *s);
    struct kern ref;
    kern_init(&ref, KERN_REF);
    for (int64_t i = 0; i < n; i++) s[i] = sqrtf(whole.h[i]);
    const double all = feedback_error(&whole, s, x, y, n_rows);
    for (int64_t r = 0; r < n_rows; r++)
        ref.op[type].decode(enc + (uint64_t)r * bytes, y + r * n, n);
    const double e = feedback_error(&whole, s, x, y, n_rows) / all;
    free(s);
    free(y);
    return e;
}

/* Encodes the rows with feedback and prints time, error and a hash. */
static void measure(const struct gram_input *in, enum qtype type, enum search search) {
    const uint64_t bytes = qtype_row_bytes(type, n);
    uint8_t *enc = xcalloc((size_t)n_rows, bytes);
    struct fb_source src = {.in = in,
                            .type = type,
                            .search = search,
                            .n = n,
                            .rows = n_rows,
                            .n_mat = 1,
                            .load = load,
                            .steps = FEEDBACK_ALL};
    struct fb_tensor *t;
    struct err e;
    double t0 = now(), best = HUGE_VAL;
    if (fb_tensor_new(&t, &src, &e) || fb_tensor_matrix(t, 0, &e)) stop(&e);
    const double setup = now() - t0;
    for (int rep = 0; rep < REPS; rep++) {
        t0 = now();
        for (int64_t r = 0; r < n_rows; r += GROUP)
            fb_tensor_rows(t, 0, r, x + r * n, (int)min_i64(GROUP, n_rows - r),
                           enc + (uint64_t)r * bytes, bytes);
        best = fmin(best, now() - t0);
    }
    printf("{\"type\": \"%s\", \"search\": \"%s\", \"columns\": %lld, \"rows\": %lld, "
           "\"us_per_weight\": %.3f, \"setup_s\": %.3f, \"alpha\": %g, \"error\": %.5g, "
           "\"bytes\": \"%016llx\"}\n",
           qtype_name(type), search_name(search), (long long)n, (long long)n_rows,
           1e6 * best / (double)(n * n_rows), setup, fb_tensor_alpha(t), error(enc, type),
           (unsigned long long)hash_u64(enc, (uint64_t)n_rows * bytes));
    fflush(stdout);
    fb_tensor_free(t);
    free(enc);
}

#ifdef __x86_64__
/* Returns the speed of 12 independent chains in registers, in GMAC/s. */
__attribute__((target("avx2"))) static double peak(void) {
    typedef float v8 __attribute__((vector_size(32)));
    enum { CHAINS = 12, STEPS = 10 * 1000 * 1000 };
    v8 a = {0}, b = a + 1, c = a + 2, d = a + 3, f = a + 4, g = a + 5, h = a + 6, i = a + 7,
       j = a + 8, k = a + 9, l = a + 10, m = a + 11;
    const v8 by = a + 0.5F, plus = a + 0.25F;
    const double t0 = now();
    for (int s = 0; s < STEPS; s++) {
        a = a * by + plus, b = b * by + plus, c = c * by + plus, d = d * by + plus;
        f = f * by + plus, g = g * by + plus, h = h * by + plus, i = i * by + plus;
        j = j * by + plus, k = k * by + plus, l = l * by + plus, m = m * by + plus;
    }
    const double t = now() - t0;
    a += b + c + d + f + g + h + i + j + k + l + m;
    return a[0] > 0 ? 8e-9 * CHAINS * STEPS / t : 0;
}
#else
static double peak(void) {
    return 0;
}
#endif

#ifdef FEEDBACK_BEFORE
static double product(const float *sum) {
    return sum ? 0 : 1;
}
#else
/* Returns the speed of a product of GROUP rows with all columns, in GMAC/s. */
static double product(const float *sum) {
    float *c = xcalloc((size_t)(GROUP * n), sizeof *c),
          *a = xcalloc((size_t)(GROUP * n), sizeof *a);
    const struct enc_product o = {
        .c = c, .a = a, .b = sum, .ldc = n, .lda = n, .ldb = n, .m = GROUP, .k = n, .n = n};
    double best = HUGE_VAL;
    for (int64_t i = 0; i < GROUP * n; i++) a[i] = 1e-6F * (float)(i % 97);
    for (int rep = 0; rep < REPS; rep++) {
        const double t0 = now();
        enc_lanes()->product(&o);
        best = fmin(best, now() - t0);
    }
    free(c);
    free(a);
    return 1e-9 * GROUP * (double)n * (double)n / best;
}
#endif

/* Returns the GFLOP/s of factoring R, without computing it. */
static double factor(const struct gram_input *in) {
    struct factor_opts o = {.halves = 3, .lambda = 0.01};
    struct factor f;
    struct err e;
    double t[2];
    if (factor_init(&f, n, n, &e)) stop(&e);
    for (int k = 0; k < 2 * REPS; k++) {
        o.alpha = k % 2 ? 0.1 : 0;
        const double t0 = now();
        if (factor_make(&f, in, 0, &o, NULL, 0, NULL, &e)) stop(&e);
        t[k % 2] = k < 2 ? now() - t0 : fmin(t[k % 2], now() - t0);
    }
    factor_release(&f);
    return 1e-9 * (double)n * (double)n * (double)n / 3 / (t[1] - t[0]);
}

int main(int argc, char **argv) {
    struct rng r;
    const float count[] = {TOKENS};
    char name[] = "made up";
    n = argc > 1 ? strtol(argv[1], NULL, 10) : 2048;
    n_rows = argc > 2 ? strtol(argv[2], NULL, 10) : 64;
    if (n < 32 || n % 32 || n_rows < 1)
        return fprintf(stderr, "usage: feedback COLUMNS ROWS [TYPE...]\n"), 2;
    rng_seed(&r, 11);
    float *sum = fill_moments(&r);
    struct gram_input in = {
        .name = name, .n = n, .block = n, .n_mat = 1, .sum = {sum, sum}, .count = {count, count}};
    printf("{\"columns\": %lld, \"peak_gmac\": %.1f, \"product_gmac\": %.1f, "
           "\"factor_gflops\": %.1f}\n",
           (long long)n, peak(), product(sum), factor(&in));
    const struct factor_opts undamped = {.halves = 3};
    struct err e;
    if (factor_init(&whole, n, n, &e) || factor_make(&whole, &in, 0, &undamped, NULL, 0, NULL, &e))
        stop(&e);
    x = xcalloc((size_t)(n * n_rows), sizeof *x);
    for (int64_t i = 0; i < n * n_rows; i++) x[i] = 0.02f * rng_normal(&r);
    for (int i = 0; i < QT_COUNT; i++) {
        const enum qtype t = (enum qtype)i;
        bool wanted = argc <= 3;
        for (int k = 3; k < argc; k++) wanted = wanted || strcmp(argv[k], qtype_name(t)) == 0;
        if (!wanted || !qtype_name(t) || !feedback_can(t) || n % qtype_info(t)->block_elems)
            continue;
        measure(&in, t, SEARCH_FAST);
        measure(&in, t, SEARCH_BEST);
    }
    free(x);
    factor_release(&whole);
    mem_free(sum);
    return 0;
}
