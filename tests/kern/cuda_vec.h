// SPDX-License-Identifier: MIT
/* tests/kern/cuda_vec.h - helpers for the tests of operators on activations: random vectors,
 * vectors on the device, comparisons, and a checksum of all outputs, which must not depend on the
 * thread order. */
#ifndef HONE_TESTS_CUDA_VEC_H
#define HONE_TESTS_CUDA_VEC_H

#include "base/mem.h"
#include "base/rng.h"
#include "tests/kern/cuda_dev.h"

/* f32 sums in another order, of at most a few thousand terms: the project's bound for f32 paths. */
static const double F32_TOL = 1e-6;

static struct rng rng;
static uint64_t sums[64]; /* checksums of all outputs, per thread order */
static unsigned order_now;

static float *randoms(int64_t n, float scale) {
    float *x = xcalloc((size_t)n + 1, sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        double u = 0;
        for (int k = 0; k < 4; k++) u += (double)(rng_u64(&rng) >> 11) * 0x1p-53 - 0.5;
        x[i] = scale * (float)u;
    }
    return x;
}
static inline float *copy_of(const float *x, int64_t n) {
    float *y = xcalloc((size_t)n + 1, sizeof *y);
    memcpy(y, x, (size_t)n * sizeof *x);
    return y;
}
static void *put(struct dev *d, const float *x, int64_t n) {
    return dev_put(d, x, (size_t)n * sizeof *x);
}
static void *space(struct dev *d, int64_t n) {
    return dev_new(d, (size_t)n * sizeof(float));
}
static void note(const void *p, size_t n) {
    const uint8_t *b = p;
    uint64_t h = sums[order_now];
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * 0x100000001b3u;
    sums[order_now] = h;
}
/* Checks that |out - want| <= tol |want|, as vectors; frees want. */
static void compare(struct dev *d, const char *what, const void *out, float *want, int64_t n,
                    double tol) {
    float *got = xcalloc((size_t)n + 1, sizeof *got);
    dev_get(d, got, out, (size_t)n * sizeof *got);
    note(got, (size_t)n * sizeof *got);
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = (double)got[i] - (double)want[i];
        diff += x * x;
        norm += (double)want[i] * (double)want[i];
    }
    if (!(sqrt(diff) <= tol * sqrt(norm)))
        CHECK_FAIL("%s: relative error %.3g is more than %.3g", what, sqrt(diff / norm), tol);
    free(got);
    free(want);
}

static inline double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

#endif
