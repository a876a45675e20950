// SPDX-License-Identifier: MIT
/* quantize/enc/lanes_product.h - matrix products in a fixed order, for lanes.c.
 *
 * An element of the result is one accumulator that takes its products in ascending order, each
 * product and each addition rounded. That is the order of one axpy after another, so error feedback
 * gets the same bits from a product of 64 rows as row by row. Vectors run across columns; four rows
 * and three vectors are kept in registers. Rows of a and a panel of b are copied, so that the inner
 * loop reads both one element after another. */
#ifndef HONE_QUANTIZE_ENC_LANES_PRODUCT_H
#define HONE_QUANTIZE_ENC_LANES_PRODUCT_H

#include "base/num.h"
#include "quantize/enc/lanes_cpu.h"

enum {
    PRODUCT_COLS = 3 * VQ, /* columns of the panel of b that is copied */
    PRODUCT_DEPTH = 256,   /* rows of that panel */
    PRODUCT_GROUP = 64     /* rows of a that are copied */
};

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

/* Prefetches n rows of a panel. They are too far apart for the processor's own prefetch. */
INLINE void product_fetch(const float *b, int64_t ldb, int64_t n, int64_t cols) {
    for (int64_t i = 0; i < n; i++, b += ldb) {
        __builtin_prefetch(b);
        __builtin_prefetch(b + cols - 1);
        if (PRODUCT_COLS > 16) __builtin_prefetch(b + cols / 2);
    }
}

/* Adds four rows, whose elements alternate in a, times the panel to four rows of c. */
static void product_tile(float *const c[4], const float *a, const float *panel, int64_t depth) {
    struct row_sum s0 = load_sum(c[0]), s1 = load_sum(c[1]), s2 = load_sum(c[2]),
                   s3 = load_sum(c[3]);
    for (int64_t p = 0; p < depth; p++, panel += PRODUCT_COLS, a += 4) {
        const struct row_sum b = load_sum(panel);
        s0 = plus_row(s0, a[0], b);
        s1 = plus_row(s1, a[1], b);
        s2 = plus_row(s2, a[2], b);
        s3 = plus_row(s3, a[3], b);
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
            store_sum(panel, load_sum(o->b + (p + k) * o->ldb + j));
            continue;
        }
        for (int64_t i = 0; i < PRODUCT_COLS; i++)
            panel[i] = i >= cols   ? 0
                       : o->turned ? o->b[(j + i) * o->ldb + p + k]
                                   : o->b[(p + k) * o->ldb + j + i];
    }
}

/* Stores a[r][k + i] of four rows to to[4 * i + r], for i < 4. */
INLINE void alternate(const float *const a[4], int64_t k, float *to) {
    typedef float v4 __attribute__((vector_size(16)));
    v4 r0, r1, r2, r3;
    memcpy(&r0, a[0] + k, sizeof r0);
    memcpy(&r1, a[1] + k, sizeof r1);
    memcpy(&r2, a[2] + k, sizeof r2);
    memcpy(&r3, a[3] + k, sizeof r3);
    const v4 lo = __builtin_shufflevector(r0, r1, 0, 4, 1, 5),
             lo2 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5),
             hi = __builtin_shufflevector(r0, r1, 2, 6, 3, 7),
             hi2 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    const v4 out[4] = {
        __builtin_shufflevector(lo, lo2, 0, 1, 4, 5), __builtin_shufflevector(lo, lo2, 2, 3, 6, 7),
        __builtin_shufflevector(hi, hi2, 0, 1, 4, 5), __builtin_shufflevector(hi, hi2, 2, 3, 6, 7)};
    memcpy(to, out, sizeof out);
}

/* Copies columns [p, p + depth) of m rows of a, in groups of four whose elements alternate; pads
 * with zeros. */
static void product_rows(const struct enc_product *o, int64_t row, int64_t m, int64_t p,
                         int64_t depth, float *to) {
    static const float zeros[PRODUCT_DEPTH];
    for (int64_t i = 0; i < m; i += 4, to += 4 * PRODUCT_DEPTH) {
        const float *a[4];
        for (int64_t r = 0; r < 4; r++)
            a[r] = i + r < m ? o->a + (row + i + r) * o->lda + p : zeros;
        int64_t k = 0;
        for (; k + 4 <= depth; k += 4) alternate(a, k, to + 4 * k);
        for (; k < depth; k++)
            for (int r = 0; r < 4; r++) to[4 * k + r] = a[r][k];
    }
}

/* A panel to prefetch: `depth` rows of b; depth 0: none. */
struct panel_next {
    const float *b;
    int64_t depth, cols;
};
/* Returns the panel after (p, j). */
INLINE struct panel_next panel_after(const struct enc_product *o, int64_t p, int64_t j) {
    j += PRODUCT_COLS;
    if (j >= o->n) {
        j = 0;
        p += PRODUCT_DEPTH;
    }
    if (o->turned || p >= o->k) return (struct panel_next){o->b, 0, 0};
    return (struct panel_next){o->b + p * o->ldb + j, min_i64(PRODUCT_DEPTH, o->k - p),
                               min_i64(PRODUCT_COLS, o->n - j)};
}

/* Adds m rows of `packed` times the panel to columns [j, j + cols) of c, from `row` on, and
 * prefetches the next panel. */
static void product_group(const struct enc_product *o, int64_t row, int64_t m, int64_t j,
                          int64_t cols, int64_t depth, const float *packed, const float *panel,
                          struct panel_next next) {
    float spare[4][PRODUCT_COLS];
    const int64_t share = div_up(next.depth, div_up(m, 4));
    for (int64_t i = 0; i < m; i += 4) {
        float *c[4];
        for (int r = 0; r < 4; r++) {
            c[r] = o->c + (row + i + r) * o->ldc + j;
            if (cols == PRODUCT_COLS && i + r < m) continue;
            memset(spare[r], 0, sizeof spare[r]);
            if (i + r < m) memcpy(spare[r], c[r], (size_t)cols * sizeof(float));
            c[r] = spare[r];
        }
        const int64_t from = i / 4 * share;
        if (from < next.depth)
            product_fetch(next.b + from * o->ldb, o->ldb, min_i64(share, next.depth - from),
                          next.cols);
        product_tile(c, packed + i * PRODUCT_DEPTH, panel, depth);
        for (int r = 0; r < 4 && i + r < m; r++)
            if (c[r] == spare[r])
                memcpy(o->c + (row + i + r) * o->ldc + j, spare[r], (size_t)cols * sizeof(float));
    }
}

static void product(const struct enc_product *o) {
    _Alignas(64) float panel[PRODUCT_DEPTH * PRODUCT_COLS];
    _Alignas(64) float packed[PRODUCT_DEPTH * PRODUCT_GROUP];
    for (int64_t row = 0; row < o->m; row += PRODUCT_GROUP)
        for (int64_t p = 0; p < o->k; p += PRODUCT_DEPTH) {
            const int64_t m = min_i64(PRODUCT_GROUP, o->m - row);
            const int64_t depth = min_i64(PRODUCT_DEPTH, o->k - p);
            product_rows(o, row, m, p, depth, packed);
            for (int64_t j = 0; j < o->n; j += PRODUCT_COLS) {
                const int64_t cols = min_i64(PRODUCT_COLS, o->n - j);
                product_panel(o, p, j, depth, cols, panel);
                product_group(o, row, m, j, cols, depth, packed, panel, panel_after(o, p, j));
            }
        }
}

#endif
