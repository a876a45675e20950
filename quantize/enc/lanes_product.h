// SPDX-License-Identifier: MIT
/* quantize/enc/lanes_product.h - matrix products in a fixed order, for lanes.c.
 *
 * An element of the result is one accumulator that takes its products in ascending order, each
 * product and each addition rounded. That is the order of one axpy after another, so error feedback
 * gets the same bits from a product of 64 rows as row by row. Vectors run across columns; four rows
 * and three vectors are kept in registers. */
#ifndef HONE_QUANTIZE_ENC_LANES_PRODUCT_H
#define HONE_QUANTIZE_ENC_LANES_PRODUCT_H

#include "quantize/enc/lanes_cpu.h"

#ifdef __AVX2__
typedef float vq __attribute__((vector_size(32)));
#else
typedef float vq __attribute__((vector_size(16)));
#endif
enum {
    VQ = sizeof(vq) / sizeof(float),
    PRODUCT_COLS = 3 * VQ, /* columns of the panel of b that is copied */
    PRODUCT_DEPTH = 256,   /* rows of that panel */
    STEP_COLS = 8 * VQ     /* columns of a row that product_steps keeps in registers */
};

INLINE vq loadq(const float *p) {
    vq v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void storeq(float *p, vq v) {
    memcpy(p, &v, sizeof v);
}
INLINE vq splatq(float a) {
    return (vq){0} + a;
}

struct row_sum { /* three vectors of one row; an array would be kept in memory */
    vq a, b, c;
};
INLINE struct row_sum load_sum(const float *p) {
    return (struct row_sum){loadq(p), loadq(p + VQ), loadq(p + 2 * VQ)};
}
INLINE void store_sum(float *p, struct row_sum s) {
    storeq(p, s.a);
    storeq(p + VQ, s.b);
    storeq(p + 2 * VQ, s.c);
}
INLINE struct row_sum plus_row(struct row_sum s, float a, struct row_sum b) {
    const vq v = splatq(a);
    return (struct row_sum){s.a + v * b.a, s.b + v * b.b, s.c + v * b.c};
}

/* Adds four rows of a times the panel to four rows of c. */
static void product_tile(float *const c[4], const float *const a[4], const float *panel,
                         int64_t depth) {
    const float *a0 = a[0], *a1 = a[1], *a2 = a[2], *a3 = a[3];
    struct row_sum s0 = load_sum(c[0]), s1 = load_sum(c[1]), s2 = load_sum(c[2]),
                   s3 = load_sum(c[3]);
    for (int64_t p = 0; p < depth; p++, panel += PRODUCT_COLS) {
        const struct row_sum b = load_sum(panel);
        s0 = plus_row(s0, a0[p], b);
        s1 = plus_row(s1, a1[p], b);
        s2 = plus_row(s2, a2[p], b);
        s3 = plus_row(s3, a3[p], b);
    }
    store_sum(c[0], s0);
    store_sum(c[1], s1);
    store_sum(c[2], s2);
    store_sum(c[3], s3);
}

/* Copies `depth` rows and `cols` columns of b from (p, j) to the panel; pads columns with zeros. */
static void product_panel(const struct enc_product *o, int64_t p, int64_t j, int64_t depth,
                          int64_t cols, float *panel) {
    for (int64_t k = 0; k < depth; k++, panel += PRODUCT_COLS) {
        if (!o->turned && cols == PRODUCT_COLS) {
            memcpy(panel, o->b + (p + k) * o->ldb + j, PRODUCT_COLS * sizeof *panel);
            continue;
        }
        for (int64_t i = 0; i < PRODUCT_COLS; i++)
            panel[i] = i >= cols   ? 0
                       : o->turned ? o->b[(j + i) * o->ldb + p + k]
                                   : o->b[(p + k) * o->ldb + j + i];
    }
}

static void product(const struct enc_product *o) {
    _Alignas(64) float panel[PRODUCT_DEPTH * PRODUCT_COLS];
    float spare[4][PRODUCT_COLS];
    for (int64_t j = 0; j < o->n; j += PRODUCT_COLS)
        for (int64_t p = 0; p < o->k; p += PRODUCT_DEPTH) {
            const int64_t cols = o->n - j < PRODUCT_COLS ? o->n - j : PRODUCT_COLS;
            const int64_t depth = o->k - p < PRODUCT_DEPTH ? o->k - p : PRODUCT_DEPTH;
            product_panel(o, p, j, depth, cols, panel);
            for (int64_t i = 0; i < o->m; i += 4) {
                const float *a[4];
                float *c[4];
                for (int r = 0; r < 4; r++) {
                    const int64_t row = i + r < o->m ? i + r : o->m - 1;
                    a[r] = o->a + row * o->lda + p;
                    c[r] = o->c + row * o->ldc + j;
                    if (cols == PRODUCT_COLS && i + r < o->m) continue;
                    memset(spare[r], 0, sizeof spare[r]);
                    memcpy(spare[r], c[r], (size_t)cols * sizeof(float));
                    c[r] = spare[r];
                }
                product_tile(c, a, panel, depth);
                for (int r = 0; r < 4 && i + r < o->m; r++)
                    if (c[r] == spare[r])
                        memcpy(o->c + (i + r) * o->ldc + j, spare[r], (size_t)cols * sizeof(float));
            }
        }
}

/* Adds, in order, by[k] times row at[k] of b to STEP_COLS columns of y. */
static void steps_tile(float *y, const int32_t *at, const float *by, int n, const float *b,
                       int64_t ldb) {
    vq s0 = loadq(y), s1 = loadq(y + VQ), s2 = loadq(y + 2 * VQ), s3 = loadq(y + 3 * VQ),
       s4 = loadq(y + 4 * VQ), s5 = loadq(y + 5 * VQ), s6 = loadq(y + 6 * VQ),
       s7 = loadq(y + 7 * VQ);
    for (int k = 0; k < n; k++) {
        const float *p = b + at[k] * ldb;
        const vq v = splatq(by[k]);
        s0 += v * loadq(p);
        s1 += v * loadq(p + VQ);
        s2 += v * loadq(p + 2 * VQ);
        s3 += v * loadq(p + 3 * VQ);
        s4 += v * loadq(p + 4 * VQ);
        s5 += v * loadq(p + 5 * VQ);
        s6 += v * loadq(p + 6 * VQ);
        s7 += v * loadq(p + 7 * VQ);
    }
    storeq(y, s0);
    storeq(y + VQ, s1);
    storeq(y + 2 * VQ, s2);
    storeq(y + 3 * VQ, s3);
    storeq(y + 4 * VQ, s4);
    storeq(y + 5 * VQ, s5);
    storeq(y + 6 * VQ, s6);
    storeq(y + 7 * VQ, s7);
}

static void product_steps(const struct enc_steps *rows, int n_rows, const float *b, int64_t ldb,
                          int depth, int64_t n) {
    _Alignas(64) float panel[PRODUCT_DEPTH * STEP_COLS];
    int64_t all = 0;
    for (int r = 0; r < n_rows; r++) all += rows[r].n;
    const bool copy = all > 2 * depth && depth <= PRODUCT_DEPTH;
    for (int64_t j = 0; j < n; j += STEP_COLS) {
        const int64_t cols = n - j < STEP_COLS ? n - j : STEP_COLS;
        for (int k = 0; k < depth && copy; k++)
            memcpy(panel + k * STEP_COLS, b + k * ldb + j, (size_t)cols * sizeof *panel);
        for (int r = 0; r < n_rows; r++) {
            const struct enc_steps *o = &rows[r];
            if (cols == STEP_COLS) {
                steps_tile(o->y + j, o->at, o->by, o->n, copy ? panel : b + j,
                           copy ? STEP_COLS : ldb);
                continue;
            }
            for (int k = 0; k < o->n; k++)
                for (int64_t i = 0; i < cols; i++)
                    o->y[j + i] += o->by[k] * b[o->at[k] * ldb + j + i];
        }
    }
}

#endif
