// SPDX-License-Identifier: MIT
/* tests/kern/cuda_product.c - products of float matrices on a device: the bits of plain loops, for
 * sizes around those of tiles; second moments and gradients of matrices in main memory against sums
 * in double. `make test`: under the CPU emulation, in several thread orders; `make check-cuda`: on
 * the device. */
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
    for (int trial = 0; trial < 24; trial++) {
        struct cu_multiply p = {.ldc = LD,
                                .lda = LD,
                                .ldb = LD,
                                .m = size[trial % N],
                                .n = size[trial * 7 % N],
                                .k = size[trial * 3 % N],
                                .turned = trial & 1,
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
                    const float x = a[i * LD + k], y = p.turned ? b[j * LD + k] : b[k * LD + j];
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

/* Tests the gradient with respect to a product's input, for decoded weights. */
static void test_back(struct dev *d) {
    enum { K = 512, ROWS = 700, M = 150 };
    static float w[ROWS * K], dy[M * ROWS], dx[M * K], y[K];
    static uint8_t blocks[ROWS * K];
    const uint64_t row = qtype_row_bytes(QT_Q4_K, K);
    static double sum[M * K], size[M * K];
    struct dev_product *p;
    struct kern ref;
    struct err e;
    (void)d;
    kern_init(&ref, KERN_REF);
    fill(w, ROWS * K);
    fill(dy, M * ROWS);
    fill(dx, M * K);
    for (int i = 0; i < M * K; i++) {
        sum[i] = (double)dx[i];
        size[i] = fabs(sum[i]);
    }
    for (int r = 0; r < ROWS; r++) {
        enc_find(QT_Q4_K)->row(w + r * K, NULL, K, blocks + (uint64_t)r * row, SEARCH_FAST);
        ref.op[QT_Q4_K].decode(blocks + (uint64_t)r * row, y, K);
        for (int i = 0; i < M; i++)
            for (int k = 0; k < K; k++) {
                const double v = (double)dy[i * ROWS + r] * (double)y[k];
                sum[i * K + k] += v;
                size[i * K + k] += fabs(v);
            }
    }
    CHECK_OK(dev_product_new(&p, 0, 0, NULL, &e));
    CHECK(!dev_product_back(p, QT_Q4_K, blocks, row, ROWS, K, dy, dx, 1));
    CHECK(dev_product_back(p, QT_Q4_K, blocks, row, ROWS, K, dy, dx, M));
    for (int i = 0; i < M * K; i++) CHECK_CLOSE(dx[i], sum[i], rounding(ROWS) * size[i]);
    dev_product_free(p);
    /* without room, nothing is changed */
    CHECK_OK(dev_product_new(&p, 0, 1 << 16, NULL, &e));
    const float before = dx[7];
    CHECK(!dev_product_back(p, QT_Q4_K, blocks, row, ROWS, K, dy, dx, M));
    CHECK(dx[7] == before);
    dev_product_free(p);
    CHECK_ERR(dev_product_new(&p, 99, 0, NULL, &e), ERR_SYS, "no CUDA device 99");
}

int main(void) {
    struct dev d;
    if (!dev_open(&d)) return check_skip("no CUDA device");
    EACH_ORDER(order) {
        dev_small(&d, order == 1);
        rng_seed(&rng, 23);
        RUN_DEV(test_bits, &d);
        if (order == 2) RUN_DEV(test_squares, &d);
        if (order == 2) RUN_DEV(test_back, &d);
    }
    dev_close(&d);
    return check_done();
}
