// SPDX-License-Identifier: MIT
/* tests/unit/test_blas.c - products by the installed OpenBLAS, if any, compared with sums in
 * double, and the products that use it. tests/cli/blas.sh has builds that are wrong or slow. */
#include "kernels/blas.h"

#include "base/mem.h"
#include "calib/moments.h"
#include "models/graph.h"
#include "base/rng.h"
#include "tests/check.h"

static struct kern ours;
static int n_ours;
static void count_ours(const float *restrict a, int64_t lda, const float *restrict b, int64_t ldb,
                       float *restrict c, int64_t ldc, int64_t m, int64_t n, int64_t k) {
    n_ours++;
    ours.gemm_f32(a, lda, b, ldb, c, ldc, m, n, k);
}

/* Multiplies random matrices; each sum may be off by k roundings of its terms' sizes, once for the
 * terms and once for the sums (Higham, Accuracy and Stability, section 3.1). */
static void product(struct rng *r, const struct kern *k, unsigned uses, int64_t m, int64_t n,
                    int64_t kk, int use) {
    const bool back = use == BLAS_BACK, adds = use >= 0;
    const int64_t lda = kk + 5, ldb = (back ? n : kk) + 3, ldc = n + 2, n_b = back ? kk : n;
    float *a = xcalloc((size_t)(m * lda), sizeof *a), *b = xcalloc((size_t)(n_b * ldb), sizeof *b);
    float *c = xcalloc((size_t)(m * ldc), sizeof *c);
    for (int64_t i = 0; i < m * lda; i++) a[i] = rng_normal(r);
    for (int64_t i = 0; i < n_b * ldb; i++) b[i] = rng_normal(r);
    for (int64_t i = 0; i < m * ldc; i++) c[i] = 0.5f;
    if (adds)
        blas_add((enum blas_use)use, a, lda, b, ldb, c, ldc, m, n, kk);
    else
        blas_product(k, uses, a, lda, b, ldb, c, ldc, m, n, kk);
    int bad = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < ldc; j++) {
            double want = adds ? 0.5 : 0, size = want;
            for (int64_t p = 0; p < kk && j < n; p++) {
                const double x =
                    (double)a[i * lda + p] * (double)b[back ? p * ldb + j : j * ldb + p];
                want += x;
                size += fabs(x);
            }
            if (j >= n) want = 0.5, size = 0; /* between the rows of C */
            bad += !(fabs((double)c[i * ldc + j] - want) <= 2 * (double)(kk + 2) * 0x1p-24 * size);
        }
    CHECK_EQ_I64(bad, 0);
    free(a);
    free(b);
    free(c);
}

static void test_products(void) {
    struct kern k;
    struct rng r;
    rng_seed(&r, 1);
    kern_init(&ours, kern_isa_best());
    k = ours;
    k.gemm_f32 = count_ours;
    product(&r, &k, 0, 300, 33, 130, -1);
    CHECK_EQ_I64(n_ours, 1); /* an empty set */
    const unsigned uses = blas_let(1u << BLAS_ROWS_64 | 1u << BLAS_BACK);
    if (blas_open()) {
        CHECK_EQ_I64(uses, 0);
        printf("no OpenBLAS: %s\n", blas_open());
        return;
    }
    CHECK(blas_does(uses, BLAS_BACK) && !blas_does(uses, BLAS_MOMENTS));
    static const struct {
        int64_t m, n, k;
        bool theirs;
    } cases[] = {{47, 64, 256, false},  {48, 64, 256, true},  {255, 32, 128, true},
                 {256, 64, 256, false}, {64, 31, 256, false}, {64, 64, 127, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        n_ours = 0;
        product(&r, &k, uses, cases[i].m, cases[i].n, cases[i].k, -1);
        CHECK_EQ_I64(n_ours, !cases[i].theirs);
    }
    product(&r, &k, uses, 128, 256, 509, BLAS_BACK);
    product(&r, &k, uses, 100, 77, 1031, BLAS_BACK);
    product(&r, &k, uses, 256, 200, 513, BLAS_MOMENTS);
    product(&r, &k, uses, 5, 256, 64, BLAS_MOMENTS);
    CHECK_EQ_I64(blas_let(0), 0);
}

/* Collects moments of n columns with OpenBLAS, in blocks, and compares them with sums in double. */
static void moments(int64_t n, int64_t block) {
    enum { ROWS = 70 };
    struct gr_weight w = {.name = "blk.0.attn_q.weight", .ne = {n, 1, 1, 1}};
    struct pool *pool = NULL;
    struct gram_col *col = NULL;
    struct gram g;
    struct rng r;
    struct err e;
    float *x = xcalloc((size_t)(ROWS * n), sizeof *x);
    rng_seed(&r, 2);
    for (int64_t i = 0; i < ROWS * n; i++) x[i] = rng_normal(&r);
    gram_init(&g);
    CHECK_OK(pool_new(&pool, 3, &e));
    CHECK_OK(gram_col_new(&col, block, kern_isa_best(), pool, &e));
    gram_col_blas(col, 1u << BLAS_MOMENTS);
    gram_col_see(col, &w, -1, x, NULL, ROWS, n);
    CHECK_OK(gram_col_settle(col, ROWS, &e));
    gram_col_chunk(col, 0);
    for (int i = 0; i < 2; i++) gram_col_see(col, &w, -1, x, NULL, ROWS, n);
    CHECK_OK(gram_col_finish(col, &g, &e));
    const struct gram_input *in = &g.input[0];
    int bad = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t b0 = i / in->block * in->block, j = b0; j < n && j < b0 + in->block; j++) {
            double want = 0, size = 0;
            for (int64_t t = 0; t < ROWS; t++) {
                const double v = (double)x[t * n + i] * (double)x[t * n + j];
                want += 2 * v;
                size += 2 * fabs(v);
            }
            const double d = (double)in->sum[0][i * in->block + j - b0] - want;
            bad += !(fabs(d) <= 2 * (2 * ROWS + 2) * 0x1p-24 * size);
        }
    CHECK_EQ_I64(in->n, n);
    CHECK_EQ_I64(bad, 0);
    gram_release(&g);
    gram_col_free(col);
    pool_free(pool);
    free(x);
}

static void test_moments(void) {
    moments(600, 0);
    moments(1100, 512);
    moments(256, 0);
}

/* Checks that OpenBLAS is used only if it is at least 10 % faster. */
static void test_faster(void) {
    const double a[BLAS_USES] = {100, 100, 100, 0, 100}, b[BLAS_USES] = {109, 111, 50, 0, 200};
    CHECK_EQ_I64(blas_faster(a, b), 1u << BLAS_ROWS_64 | 1u << BLAS_MOMENTS);
}

int main(void) {
    RUN(test_products);
    RUN(test_moments);
    RUN(test_faster);
    return check_done();
}
