// SPDX-License-Identifier: MIT
/* bench/blas.c - times float products on one thread: f32 matrices, second moments of a dense input,
 * the factorization for error feedback, and the OpenBLAS trial of `hone doctor`. Prints JSON.
 * bench/blas.py runs this program, and then products of the same sizes in numpy. */
#include <stdio.h>
#include <stdlib.h>

#include "calib/moments.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/rng.h"
#include "kernels/bench.h"
#include "kernels/blas.h"
#include "models/graph.h"
#include "quantize/factor.h"
#include "work/isa_choice.h"

enum { N = 2048, ROWS = 512, REPS = 5 };

/* Prints the error and exits with 1. */
static void stop_with(const struct err *e) {
    fprintf(stderr, "blas: %s\n", e->msg);
    exit(1);
}

/* Returns the shortest time, in seconds, of adding ROWS rows to the moments of N columns; *out gets
 * the collected moments. */
static double moments(struct pool *pool, const float *x, struct gram *out) {
    struct gr_weight w = {.name = "blk.0.attn_q.weight", .ne = {N, N, 1, 1}};
    struct gram_col *c = NULL;
    struct err e;
    double best = 1e9;
    if (gram_col_new(&c, 0, kern_isa_best(), pool, &e)) stop_with(&e);
    gram_col_see(c, &w, -1, x, NULL, ROWS, N);
    if (gram_col_settle(c, ROWS, &e)) stop_with(&e);
    for (int i = 0; i < REPS; i++) {
        const double t0 = progress_now_s();
        gram_col_chunk(c, 8 * i);
        gram_col_see(c, &w, -1, x, NULL, ROWS, N);
        const double t = progress_now_s() - t0;
        if (t < best) best = t;
    }
    if (gram_col_finish(c, out, &e)) stop_with(&e);
    return best;
}

/* Returns the shortest time, in seconds, of computing the factor of moments of N columns. */
static double factor(struct pool *pool, const struct gram_input *in) {
    const struct factor_opts plain = {.halves = 3, .lambda = 0.01, .alpha = 0};
    const struct factor_opts full = {.halves = 3, .lambda = 0.01, .alpha = 0.1};
    struct factor f;
    struct err e;
    double best = 1e9;
    if (factor_init(&f, in->n, in->block, &e)) stop_with(&e);
    for (int i = 0; i < REPS; i++) { /* with alpha 0 everything is done except the factor */
        double t0 = progress_now_s();
        if (factor_make(&f, in, 0, &plain, NULL, 0, pool, &e)) stop_with(&e);
        const double rest = progress_now_s() - t0;
        t0 = progress_now_s();
        if (factor_make(&f, in, 0, &full, NULL, 0, pool, &e)) stop_with(&e);
        const double t = progress_now_s() - t0 - rest;
        if (t < best) best = t;
    }
    factor_release(&f);
    return best;
}

/* Prints the OpenBLAS trial as members of an object. */
static void trial(const struct kern *k) {
    double ours[BLAS_USES], theirs[BLAS_USES];
    const char *why = blas_open();
    char cpu[128];
    choice_processor(cpu);
    printf(", \"processor\": \"%s\", \"openblas\": \"%s\"", cpu, blas_config());
    if (why) printf(", \"not_used\": \"%s\"", why);
    if (why) return;
    blas_trial(k, ours, theirs);
    const unsigned uses = blas_faster(ours, theirs);
    printf(", \"trial\": [");
    for (int i = 0; i < BLAS_USES; i++) {
        const struct blas_use_info *u = &blas_uses[i];
        printf("%s{\"use\": \"%s\", \"rows\": %d, \"columns\": %d, \"sum\": %d", i ? ", " : "",
               u->name, (int)u->m, (int)u->n, (int)u->k);
        printf(", \"hone\": %.1f, \"openblas\": %.1f, \"used\": %s}", ours[i], theirs[i],
               uses >> i & 1 ? "true" : "false");
    }
    printf("]");
}

int main(void) {
    static const int64_t m[] = {1, 2, 16, 64, 512};
    const double n = N, flop = n * (n + 1) * ROWS;
    struct kern k;
    struct pool *pool = NULL;
    struct gram g;
    struct rng r;
    struct err e;
    float *x = xcalloc((size_t)ROWS * N, sizeof *x);
    if (pool_new(&pool, 1, &e)) stop_with(&e);
    gram_init(&g);
    rng_seed(&r, 1);
    for (int64_t i = 0; i < ROWS * N; i++) x[i] = rng_normal(&r);
    kern_init(&k, kern_isa_best());
    printf("{\"isa\": \"%s\"", kern_isa_name(kern_isa_best()));
    trial(&k);
    for (size_t i = 0; i < sizeof m / sizeof *m; i++)
        printf(", \"gemm_%d\": %.1f", (int)m[i], kern_bench_gemm(&k, m[i], N, N, 0.3));
    printf(", \"moments\": %.1f", flop / moments(pool, x, &g) / 1e9);
    printf(", \"factor\": %.1f}\n", n * n * n / 3 / factor(pool, &g.input[0]) / 1e9);
    gram_release(&g);
    pool_free(pool);
    free(x);
    return 0;
}
