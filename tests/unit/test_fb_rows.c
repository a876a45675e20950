// SPDX-License-Identifier: MIT
/* Error feedback between rows: the loss tr(G E H E^T) for synthetic gradients and inputs, computed
 * with plain loops, with and without feedback; invariants (uncorrelated gradients, number of
 * threads); invalid moments. */
#include "tests/check.h"

#include "base/ctx.h"
#include "base/limits.h"
#include "base/rng.h"
#include "kernels/kern.h"
#include "quantize/fb_tensor.h"
#include "quantize/feedback.h"

enum { N = 256, ROWS = 136, MATS = 2, TOKENS = 600 };
static char name[] = "made up";
static float *x, *sum_in, *sum_out, *y[2];
static const float count[MATS] = {TOKENS, TOKENS};
static struct gram_input in, out;

/* Adds the outer products of TOKENS correlated rows of n values to sum [n][n]. */
static void moments(struct rng *r, float *sum, int64_t n, int n_causes) {
    float *mix = calloc((size_t)(n_causes * n), sizeof *mix), *row = calloc((size_t)n, sizeof *row);
    for (int64_t i = 0; i < n_causes * n; i++) mix[i] = 0.5f * rng_normal(r);
    for (int t = 0; t < TOKENS; t++) {
        for (int64_t i = 0; i < n; i++) row[i] = 0.5f * rng_normal(r);
        for (int k = 0; k < n_causes; k++) {
            const float z = rng_normal(r);
            for (int64_t i = 0; i < n; i++) row[i] += z * mix[k * n + i];
        }
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) sum[i * n + j] += row[i] * row[j];
    }
    free(mix);
    free(row);
}

static void fill(void) {
    struct rng r;
    rng_seed(&r, 7);
    x = calloc(MATS * ROWS * N, sizeof *x);
    for (int k = 0; k < 2; k++) y[k] = calloc(MATS * ROWS * N, sizeof *y[k]);
    sum_in = calloc(N * N, sizeof *sum_in);
    sum_out = calloc(MATS * ROWS * ROWS, sizeof *sum_out);
    moments(&r, sum_in, N, 8);
    for (int m = 0; m < MATS; m++) moments(&r, sum_out + m * ROWS * ROWS, ROWS, 6);
    for (int i = 0; i < MATS * ROWS * N; i++) x[i] = 0.02f * rng_normal(&r);
    in = (struct gram_input){.name = name, .n = N, .block = N, .n_mat = 1};
    out = (struct gram_input){.name = name, .n = ROWS, .block = ROWS, .n_mat = MATS};
    for (int h = 0; h < GRAM_HALVES; h++) {
        in.sum[h] = sum_in;
        out.sum[h] = sum_out;
        in.count[h] = out.count[h] = count;
    }
}

static bool load(void *ctx, int64_t row, float *to) {
    (void)ctx;
    memcpy(to, x + row * N, N * sizeof *to);
    return true;
}

static struct factors *shared; /* for encode; NULL: each tensor has its own */

/* Encodes both matrices and decodes them to `to`. Returns the last result of fb_tensor_matrix. */
static int encode(enum qtype type, const struct gram_input *grad, int threads, float *to) {
    struct err e;
    struct pool *pool;
    struct fb_tensor *t;
    struct kern ref;
    const uint64_t bytes = qtype_row_bytes(type, N);
    uint8_t *enc = calloc(FEEDBACK_ROWS, bytes);
    int rc = 0;
    kern_init(&ref, KERN_REF);
    CHECK_OK(pool_new(&pool, threads, &e));
    const struct fb_source src = {.in = &in,
                                  .out = grad,
                                  .type = type,
                                  .search = SEARCH_FAST,
                                  .n = N,
                                  .rows = ROWS,
                                  .n_mat = MATS,
                                  .load = load,
                                  .steps = FEEDBACK_ALL,
                                  .pool = pool,
                                  .factors = shared};
    CHECK_OK(fb_tensor_new(&t, &src, &e));
    for (int m = 0; m < MATS && !rc; m++) {
        rc = fb_tensor_matrix(t, m, &e);
        const int64_t step = fb_tensor_stage_rows(t);
        CHECK(step > 0 && step % FEEDBACK_ROWS == 0);
        for (int64_t r = 0; r < ROWS && !rc; r += FEEDBACK_ROWS) {
            const int64_t at = m * ROWS + r;
            if (r % step == 0) fb_tensor_stage(t, r);
            fb_tensor_rows(t, (int)(r / FEEDBACK_ROWS) % threads, r, x + at * N, FEEDBACK_ROWS, enc,
                           bytes);
            for (int64_t k = 0; k < FEEDBACK_ROWS; k++)
                ref.op[type].decode(enc + (uint64_t)k * bytes, to + (at + k) * N, N);
        }
    }
    fb_tensor_free(t);
    pool_free(pool);
    free(enc);
    return rc;
}

/* Returns tr(G E H E^T) of the encoded rows in `to`, over both matrices. */
static double loss(const float *to) {
    double *eh = calloc(ROWS * N, sizeof *eh), all = 0;
    for (int m = 0; m < MATS; m++) {
        const float *w = x + m * ROWS * N, *q = to + m * ROWS * N, *g = sum_out + m * ROWS * ROWS;
        memset(eh, 0, ROWS * N * sizeof *eh);
        for (int r = 0; r < ROWS; r++)
            for (int i = 0; i < N; i++)
                for (int k = 0; k < N; k++)
                    eh[r * N + k] +=
                        (double)(w[r * N + i] - q[r * N + i]) * (double)sum_in[i * N + k];
        for (int r = 0; r < ROWS; r++)
            for (int p = 0; p < ROWS; p++) {
                double dot = 0;
                for (int i = 0; i < N; i++)
                    dot += eh[r * N + i] * (double)(w[p * N + i] - q[p * N + i]);
                all += dot * (double)g[r * ROWS + p];
            }
    }
    free(eh);
    return all;
}

static void test_less_loss(void) {
    static const enum qtype types[] = {QT_Q4_0, QT_Q4_K, QT_Q3_K, QT_IQ2_XS, QT_NVFP4};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        CHECK_EQ_I64(encode(types[i], NULL, 1, y[0]), 0);
        CHECK_EQ_I64(encode(types[i], &out, 1, y[1]), 0);
        const double ratio = loss(y[1]) / loss(y[0]);
        printf("  %s: %.3f of the loss\n", qtype_info(types[i])->name, ratio);
        CHECK(ratio < 0.8);
    }
}

/* Checks that, with moments in blocks, rows compensate only for errors of rows in their own
 * block. */
static void test_blocks(void) {
    enum { BLOCK = 32 };
    float *part = calloc(MATS * ROWS * BLOCK, sizeof *part);
    struct gram_input blocks = out;
    for (int i = 0; i < MATS * ROWS; i++)
        for (int k = 0, b0 = i % ROWS / BLOCK * BLOCK; k < BLOCK && b0 + k < ROWS; k++)
            part[i * BLOCK + k] = sum_out[i * ROWS + b0 + k];
    blocks.block = BLOCK;
    blocks.sum[0] = blocks.sum[1] = part;
    CHECK_EQ_I64(encode(QT_Q4_K, NULL, 1, y[0]), 0);
    CHECK_EQ_I64(encode(QT_Q4_K, &blocks, 1, y[1]), 0);
    const double ratio = loss(y[1]) / loss(y[0]);
    printf("  Q4_K in blocks: %.3f of the loss\n", ratio);
    CHECK(ratio < 0.9);
    free(part);
}

static void test_same(void) {
    float *one = calloc(ROWS * ROWS, sizeof *one);
    struct gram_input alone = out;
    for (int i = 0; i < ROWS; i++) one[i * ROWS + i] = (float)(1 + i % 5);
    alone.n_mat = 1;
    alone.sum[0] = alone.sum[1] = one;
    CHECK_EQ_I64(encode(QT_Q4_K, NULL, 1, y[0]), 0);
    CHECK_EQ_I64(encode(QT_Q4_K, &alone, 1, y[1]), 0);
    CHECK(memcmp(y[0], y[1], MATS * ROWS * N * sizeof *x) == 0);
    CHECK_EQ_I64(encode(QT_Q4_K, &out, 1, y[0]), 0);
    CHECK_EQ_I64(encode(QT_Q4_K, &out, 3, y[1]), 0);
    CHECK(memcmp(y[0], y[1], MATS * ROWS * N * sizeof *x) == 0);
    free(one);
}

/* Checks that types that share factors give the same bytes as types that do not, and that each
 * factor is made once: for four shrinkages and the held-out half, for both halves with the chosen
 * shrinkages, and two for gradients. */
static void test_shared(void) {
    static const enum qtype types[] = {QT_Q4_0, QT_Q3_K, QT_IQ2_XS, QT_Q3_K};
    for (int little = 0; little < 2; little++) {
        struct ctx own;
        ctx_init(&own);
        struct ctx *mine = ctx_enter(&own);
        if (little) mem_limit(8 << 20); /* an eighth of that is less than two factors */
        struct factors *all = factors_new();
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            CHECK_EQ_I64(encode(types[i], &out, 1, y[0]), 0);
            factors_next(all);
            shared = all;
            const int64_t before = factors_made(all);
            CHECK_EQ_I64(encode(types[i], &out, 1, y[1]), 0);
            shared = NULL;
            CHECK(memcmp(y[0], y[1], MATS * ROWS * N * sizeof *x) == 0);
            if (i == 0 && !little) CHECK_EQ_I64(factors_made(all), 5 + 1 + MATS);
            if (i == 1 && !little) CHECK(factors_made(all) <= before + 1);
            if (i == 3 && !little) CHECK_EQ_I64(factors_made(all), before);
        }
        if (little) CHECK(factors_made(all) > 20);
        factors_free(all);
        ctx_release(&own);
        ctx_enter(mine);
    }
}

static void test_broken(void) {
    const float was = sum_out[ROWS * ROWS + 1];
    sum_out[ROWS * ROWS + 1] = NAN;
    CHECK(encode(QT_Q4_K, &out, 1, y[0]) == ERR_DATA);
    sum_out[ROWS * ROWS + 1] = was;
}

int main(void) {
    fill();
    RUN(test_less_loss);
    RUN(test_blocks);
    RUN(test_same);
    RUN(test_shared);
    RUN(test_broken);
    free(x);
    free(sum_in);
    free(sum_out);
    for (int k = 0; k < 2; k++) free(y[k]);
    return check_done();
}
