// SPDX-License-Identifier: MIT
/* quantize/enc/lanes_factor.h - the two inner steps of a blocked Cholesky factorization in double
 * (quantize/factor.c), for lanes.c.
 *
 * Vectors hold elements of several rows, so every element is summed in the same order whatever the
 * vector length: 64 products as eight sums of every eighth product, which are then added one after
 * the other. */
#ifndef HONE_QUANTIZE_ENC_LANES_FACTOR_H
#define HONE_QUANTIZE_ENC_LANES_FACTOR_H

#include "quantize/enc/lanes_cpu.h"

#ifdef __AVX2__
typedef double vp __attribute__((vector_size(32)));
#else
typedef double vp __attribute__((vector_size(16)));
#endif
enum { VP = sizeof(vp) / sizeof(double), STRIDE = 8 };

INLINE vp loadp(const double *p) {
    vp v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE vp splatp(double a) {
    return a - (vp){0};
}

/* Three vectors of sums; an array of vectors would be kept in memory. */
struct three {
    vp a, b, c;
};
INLINE struct three plus(struct three s, struct three t) {
    return (struct three){s.a + t.a, s.b + t.b, s.c + t.c};
}
/* Adds b times the three vectors at x. */
INLINE struct three add(struct three s, const double *x, vp b) {
    return (struct three){s.a + loadp(x) * b, s.b + loadp(x + VP) * b, s.c + loadp(x + 2 * VP) * b};
}

static void factor_panel(double *x, const double *l, int64_t ld) {
    for (int c = 0; c < FACTOR_ROWS; c += 3 * VP)
        for (int64_t q = 0; q < FACTOR_COLUMNS; q++) {
            const int64_t whole = q / STRIDE * STRIDE;
            const double *lq = l + q * ld, *xc = x + c;
            double *to = x + q * FACTOR_ROWS + c;
            struct three s = {0};
            for (int64_t k = whole; k < q; k++) s = add(s, xc + k * FACTOR_ROWS, splatp(lq[k]));
            for (int64_t i = 0; i < STRIDE; i++) {
                struct three sum = {0};
                for (int64_t k = i; k < whole; k += STRIDE)
                    sum = add(sum, xc + k * FACTOR_ROWS, splatp(lq[k]));
                s = plus(s, sum);
            }
            const vp by = splatp(lq[q]),
                     solved[3] = {(loadp(to) - s.a) / by, (loadp(to + VP) - s.b) / by,
                                  (loadp(to + 2 * VP) - s.c) / by};
            memcpy(to, solved, sizeof solved);
        }
}

INLINE void subtract(double *to, struct three s) {
    const vp left[3] = {loadp(to) - s.a, loadp(to + VP) - s.b, loadp(to + 2 * VP) - s.c};
    memcpy(to, left, sizeof left);
}

static void factor_trail(const double *x, const double *const row[2], double *const to[2]) {
    for (int c = 0; c < FACTOR_ROWS; c += 3 * VP) {
        struct three s = {0}, t = {0};
        for (int i = 0; i < STRIDE; i++) {
            struct three s8 = {0}, t8 = {0};
            for (int k = i; k < FACTOR_COLUMNS; k += STRIDE) {
                s8 = add(s8, x + k * FACTOR_ROWS + c, splatp(row[0][k]));
                t8 = add(t8, x + k * FACTOR_ROWS + c, splatp(row[1][k]));
            }
            s = plus(s, s8);
            t = plus(t, t8);
        }
        subtract(to[0] + c, s);
        subtract(to[1] + c, t);
    }
}

#endif
