// SPDX-License-Identifier: MIT
/* tests/kern/cuda_product.c - products of float matrices on a device: the bits of plain loops, for
 * sizes around those of tiles; second moments, products and gradients of matrices in main memory
 * against sums in double. `make test`: under the CPU emulation, in several thread orders; `make
 * check-cuda`: on the device. */
#include <math.h>

#include "base/num.h"
#include "base/rng.h"
#include "containers/qtype.h"
#include "kernels/dev_product.h"
#include "kernels/kern.h"
#include "quantize/enc/enc.h"
#include "tests/check.h"
#include "tests/kern/cuda_dev.h"

enum { LD = 141 };
static float a[LD * LD], b[LD * LD], c[LD * LD], want[LD * LD], got[LD * LD];
static struct rng rng;

static void fill(float *v, int64_t n) {
    for (int64_t i = 0; i < n; i++) v[i] = rng_normal(&rng);
}

static void test_bits(struct dev *d) {
    static const int64_t size[] = {1, 3, 15, 16, 17, 63, 64, 65, 127, 130};
    enum { N = sizeof size / sizeof *size };
    struct err e;
    for (int trial = 0; trial < 48; trial++) {
        struct cu_multiply p = {.ldc = LD,
                                .lda = LD,
                                .ldb = LD,
                                .m = size[trial % N],
                                .n = size[trial * 7 % N],
                                .k = size[trial * 3 % N],
                                .turned_a = trial & 8,
                                .turned_b = trial & 1,
                                .fresh = trial & 2,
                                .fused = trial & 4};
        fill(a, LD * LD);
        fill(b, LD * LD);
        fill(c, LD * LD);
        memcpy(want, c, sizeof want);
        for (int64_t i = 0; i < p.m; i++)
            for (int64_t j = 0; j < p.n; j++) {
                float sum = p.fresh ? 0 : c[i * LD + j];
                for (int64_t k = 0; k < p.k; k++) {
                    const float x = a[p.turned_a ? k * LD + i : i * LD + k];
                    const float y = b[p.turned_b ? j * LD + k : k * LD + j];
                    if (p.fused)
                        sum = fmaf(x, y, sum);
                    else
                        sum += x * y;
                }
                want[i * LD + j] = sum;
            }
        p.a = dev_put(d, a, sizeof a);
        p.b = dev_put(d, b, sizeof b);
        p.c = dev_put(d, c, sizeof c);
        CHECK_OK(cu_multiply(d->s, &p, &e));
        dev_get(d, got, p.c, sizeof got);
        if (memcmp(got, want, sizeof want) != 0)
            CHECK_FAIL("%lld x %lld x %lld differs", (long long)p.m, (long long)p.n,
                       (long long)p.k);
        dev_end(d);
    }
}

/* Returns the most that n rounded additions are off by, relative to the sum of magnitudes. */
static double rounding(int n) {
    return n * 0x1p-24;
}

/* Tests moments in blocks; small products are left to the CPU. */
static void test_squares(struct dev *d) {
    enum { COLS = 640, BLOCK = 256, TOKENS = 330 };
    static float xt[COLS * TOKENS], sum[COLS * BLOCK];
    struct dev_product *p;
    struct err e;
    (void)d;
    fill(xt, COLS * TOKENS);
    for (int i = 0; i < COLS * BLOCK; i++) sum[i] = 1;
    CHECK_OK(dev_product_new(&p, 0, 0, NULL, &e));
    CHECK_EQ_I64(dev_product_squares(p, xt, 8, COLS, BLOCK, sum), 0);
    CHECK_EQ_I64(dev_product_squares(NULL, xt, TOKENS, COLS, BLOCK, sum), 0);
    CHECK_EQ_I64(dev_product_squares(p, xt, TOKENS, COLS, BLOCK, sum), COLS);
    for (int i = 0; i < COLS; i++)
        for (int j = i / BLOCK * BLOCK; j <= i; j++) {
            double s = 1, size = 1;
            for (int t = 0; t < TOKENS; t++) {
                const double v = (double)xt[i * TOKENS + t] * (double)xt[j * TOKENS + t];
                s += v;
                size += fabs(v);
            }
            CHECK_CLOSE(sum[i * BLOCK + j % BLOCK], s, rounding(TOKENS + 1) * size);
        }
    dev_product_free(p);
}

enum { K = 512, ROWS = 700, M = 150, GAP = 3 };
struct matrix { /* a random one: its blocks, and their values */
    uint8_t blocks[ROWS * K];
    float v[ROWS * K];
    struct dev_matrix w;
};
static void fill_matrix(struct matrix *m) {
    static float x[ROWS * K];
    const uint64_t row = qtype_row_bytes(QT_Q4_K, K);
    struct kern ref;
    kern_init(&ref, KERN_REF);
    fill(x, ROWS * K);
    for (int r = 0; r < ROWS; r++) {
        enc_find(QT_Q4_K)->row(x + r * K, NULL, K, m->blocks + (uint64_t)r * row, SEARCH_FAST);
        ref.op[QT_Q4_K].decode(m->blocks + (uint64_t)r * row, m->v + r * K, K);
    }
    m->w = (struct dev_matrix){QT_Q4_K, m->blocks, row, ROWS, K};
}
struct sums { /* of products, and of their magnitudes */
    double sum[ROWS * K], size[ROWS * K];
};
static void add(struct sums *s, int64_t i, float u, float v) {
    s->sum[i] += (double)u * (double)v;
    s->size[i] += fabs((double)u * (double)v);
}
static void begin(struct sums *s, const float *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        s->sum[i] = from ? (double)from[i] : 0;
        s->size[i] = fabs(s->sum[i]);
    }
}

/* Tests products of decoded weights, with rows that have gaps. */
static void test_rows(struct dev *d) {
    enum { LX = K + GAP, LY = ROWS + GAP };
    static struct matrix w;
    static struct sums s;
    static float x[M * LX], y[M * LY];
    struct dev_product *p;
    struct err e;
    (void)d;
    fill_matrix(&w);
    fill(x, M * LX);
    for (int i = 0; i < M * LY; i++) y[i] = 7;
    begin(&s, NULL, M * ROWS);
    for (int i = 0; i < M; i++)
        for (int r = 0; r < ROWS; r++)
            for (int k = 0; k < K; k++) add(&s, i * ROWS + r, x[i * LX + k], w.v[r * K + k]);
    CHECK_OK(dev_product_new(&p, 0, 0, NULL, &e));
    CHECK(!dev_product_rows(NULL, &w.w, x, LX, y, LY, M));
    CHECK(!dev_product_rows(p, &w.w, x, LX, y, LY, 1));
    CHECK(dev_product_rows(p, &w.w, x, LX, y, LY, M));
    for (int i = 0; i < M * ROWS; i++)
        CHECK_CLOSE(y[i / ROWS * LY + i % ROWS], s.sum[i], rounding(K) * s.size[i]);
    for (int i = 0; i < M * GAP; i++) CHECK(y[i / GAP * LY + ROWS + i % GAP] == 7);
    dev_product_free(p);
}

/* Tests the gradient with respect to a product's input. */
static void test_back(struct dev *d) {
    static struct matrix w;
    static struct sums s;
    static float dy[M * ROWS], dx[M * K];
    struct dev_product *p;
    struct err e;
    (void)d;
    fill_matrix(&w);
    fill(dy, M * ROWS);
    fill(dx, M * K);
    begin(&s, dx, M * K);
    for (int i = 0; i < M; i++)
        for (int r = 0; r < ROWS; r++)
            for (int k = 0; k < K; k++) add(&s, i * K + k, dy[i * ROWS + r], w.v[r * K + k]);
    CHECK_OK(dev_product_new(&p, 0, 0, NULL, &e));
    CHECK(!dev_product_back(p, &w.w, dy, dx, 1));
    CHECK(dev_product_back(p, &w.w, dy, dx, M));
    for (int i = 0; i < M * K; i++) CHECK_CLOSE(dx[i], s.sum[i], rounding(ROWS) * s.size[i]);
    dev_product_free(p);
    /* without room, nothing is changed */
    CHECK_OK(dev_product_new(&p, 0, 1 << 16, NULL, &e));
    const float before = dx[7];
    CHECK(!dev_product_back(p, &w.w, dy, dx, M));
    CHECK(dx[7] == before);
    dev_product_free(p);
    CHECK_ERR(dev_product_new(&p, 99, 0, NULL, &e), ERR_SYS, "no CUDA device 99");
}

/* Tests the gradient of a matrix, for rows with gaps. */
static void test_outer(struct dev *d) {
    enum { LX = K + GAP, LG = ROWS + GAP };
    static struct sums s;
    static float g[M * LG], x[M * LX], sum[ROWS * K];
    const struct dev_pair pair = {g, x, LG, LX, M, ROWS, K};
    struct dev_pair few = pair;
    struct dev_product *p;
    struct err e;
    (void)d;
    fill(g, M * LG);
    fill(x, M * LX);
    fill(sum, ROWS * K);
    begin(&s, sum, ROWS * K);
    for (int t = 0; t < M; t++)
        for (int r = 0; r < ROWS; r++)
            for (int k = 0; k < K; k++) add(&s, r * K + k, g[t * LG + r], x[t * LX + k]);
    few.m = 1;
    CHECK_OK(dev_product_new(&p, 0, 0, NULL, &e));
    CHECK_EQ_I64(dev_product_outer(NULL, &pair, sum), 0);
    CHECK_EQ_I64(dev_product_outer(p, &few, sum), 0);
    CHECK_EQ_I64(dev_product_outer(p, &pair, sum), ROWS);
    for (int i = 0; i < ROWS * K; i++) CHECK_CLOSE(sum[i], s.sum[i], rounding(M + 1) * s.size[i]);
    dev_product_free(p);
}

int main(void) {
    struct dev d;
    if (!dev_open(&d)) return check_skip("no CUDA device");
    EACH_ORDER(order) {
        dev_small(&d, order == 1);
        rng_seed(&rng, 23);
        RUN_DEV(test_bits, &d);
        if (order == 2) RUN_DEV(test_squares, &d);
        if (order == 2) RUN_DEV(test_rows, &d);
        if (order == 2) RUN_DEV(test_back, &d);
        if (order == 2) RUN_DEV(test_outer, &d);
    }
    dev_close(&d);
    return check_done();
}
