// SPDX-License-Identifier: MIT
/* tests/kern/cuda_feedback.c - error feedback on a device: the bytes must equal those of
 * feedback_rows, which test_fb_same compares with plain loops. `make test` runs this under the CPU
 * emulation, in several thread orders, `make check-cuda` on the device. */
#include "base/num.h"
#include "base/rng.h"
#include "quantize/enc/cuda/feedback.h"
#include "quantize/enc/pack.h"
#include "quantize/feedback.h"
#include "tests/check.h"
#include "tests/kern/cuda_dev.h"

enum { ROWS = 11, MOST = 768, TOKENS = 200 };
static const enum qtype types[] = {
#define ROW(T) QT_##T,
    ENC_RAW_TYPES(ROW)
#undef ROW
};
enum { N_TYPES = sizeof types / sizeof types[0] };
static struct rng rng;

/* Computes the factor of n correlated columns in blocks. */
static void make_factor(struct factor *f, int64_t n, int64_t block) {
    const struct factor_opts o = {.halves = 3, .lambda = 0.01, .alpha = 0.1};
    const float count[] = {TOKENS};
    static float acts[TOKENS * MOST], sum[MOST * MOST];
    struct err e;
    memset(sum, 0, sizeof sum);
    for (int t = 0; t < TOKENS; t++)
        for (int64_t i = 0; i < n; i++)
            acts[t * n + i] = rng_normal(&rng) + (i % 7 ? 0.7f * acts[t * n + i / 2] : 0);
    for (int t = 0; t < TOKENS; t++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t b0 = i / block * block, j = b0; j < min_i64(n, b0 + block); j++)
                sum[i * block + j - b0] += acts[t * n + i] * acts[t * n + j];
    const struct gram_input in = {
        .n = n, .block = block, .n_mat = 1, .sum = {sum, sum}, .count = {count, count}};
    CHECK_OK(factor_init(f, n, block, &e));
    CHECK_OK(factor_make(f, &in, 0, &o, NULL, 0, NULL, &e));
}

/* Fills the rows; some have zeros, a constant, outliers or nothing but tiny weights. */
static void fill_rows(float *x, int64_t n) {
    for (int64_t i = 0; i < ROWS * n; i++) {
        const int64_t row = i / n, kind = i / 32 % 5;
        x[i] = 0.02f * rng_normal(&rng);
        if (row == 3 && kind == 1) x[i] = 0;
        if (row == 3 && kind == 3) x[i] = 0.25f;
        if (row == 5) x[i] *= i % 61 == 7 ? 40.0f : 1.0f;
        if (row == 7) x[i] *= 1e-9f;
    }
}

struct trial {
    enum qtype type;
    enum search search;
    int64_t n, block;
    unsigned steps;
    int rounds;
};

/* Encodes the rows on the CPU and on the device and compares the bytes. */
static void same_rows(struct dev *d, const struct trial *t) {
    static float x[ROWS * MOST], w[MOST], s[MOST];
    static uint8_t want[ROWS * MOST * 4], got[ROWS * MOST * 4];
    const uint64_t row = qtype_row_bytes(t->type, t->n);
    const size_t columns = (size_t)t->n * sizeof(float), square = columns * (size_t)t->block;
    struct feedback_work *work;
    struct feedback fb;
    struct factor f;
    struct err e;
    make_factor(&f, t->n, t->block);
    fill_rows(x, t->n);
    feedback_weights(w, s, f.h, t->n, 0.01);
    feedback_init(&fb, t->type, t->search);
    fb.f = &f;
    fb.imp = w;
    fb.s = s;
    fb.steps = t->steps;
    fb.rounds = t->rounds;
    CHECK_OK(feedback_work_new(&work, t->type, t->n, &e));
    feedback_rows(&fb, work, x, ROWS, want, row);
    feedback_work_free(work);
    const struct enc_cuda_feedback a = {
        .type = t->type,
        .search = t->search,
        .steps = t->steps,
        .rounds = t->rounds,
        .rows = ROWS,
        .cols = {t->n, t->block, dev_put(d, f.r, square), dev_put(d, f.m, square),
                 dev_put(d, f.diag, columns), dev_put(d, w, columns), dev_put(d, s, columns)},
        .x = dev_put(d, x, ROWS * columns),
        .out = dev_new(d, ROWS * row),
        .work = dev_new(d, enc_cuda_feedback_work(t->type, ROWS, t->n))};
    CHECK_OK(enc_cuda_feedback(d->s, &a, &e));
    dev_get(d, got, a.out, ROWS * row);
    for (int r = 0; r < ROWS; r++)
        if (memcmp(got + (uint64_t)r * row, want + (uint64_t)r * row, row) != 0)
            CHECK_FAIL("%s, %lld columns in blocks of %lld: row %d differs", qtype_name(t->type),
                       (long long)t->n, (long long)t->block, r);
    factor_release(&f);
    dev_end(d);
}

/* Tests every type, with one and with several blocks of R, and windows within a block. */
static void test_types(struct dev *d) {
    for (int t = 0; t < N_TYPES; t++) {
        const bool super = qtype_info(types[t])->block_elems == 256;
        const struct trial a = {types[t],          SEARCH_BEST,  super ? 512 : 352,
                                super ? 512 : 352, FEEDBACK_ALL, 2};
        CHECK(enc_cuda_feedback_can(types[t]));
        same_rows(d, &a);
    }
    const struct trial two = {QT_Q4_K, SEARCH_FAST, 768, 512, FEEDBACK_ALL, 2},
                       small = {QT_Q5_1, SEARCH_FAST, 192, 96, FEEDBACK_ALL, 2};
    same_rows(d, &two);
    same_rows(d, &small);
}

/* Tests single steps, and the feedback pass alone. */
static void test_steps(struct dev *d) {
    static const unsigned steps[] = {0,
                                     FEEDBACK_CODES,
                                     FEEDBACK_SCALES,
                                     FEEDBACK_INTS,
                                     FEEDBACK_BALANCE,
                                     FEEDBACK_INTS | FEEDBACK_CODES};
    static const enum qtype some[] = {QT_Q4_K, QT_Q3_K, QT_IQ4_XS, QT_Q4_1, QT_IQ4_NL};
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        const enum qtype type = some[i % COUNT_OF(some)];
        const struct trial a = {type, SEARCH_FAST, 256, 256, steps[i], i == 0 ? 0 : 2};
        same_rows(d, &a);
    }
}

static void test_refused(struct dev *d) {
    struct err e;
    const struct enc_cuda_feedback a = {.type = QT_MXFP4, .rows = 1},
                                   none = {.type = QT_Q4_K, .rows = 0},
                                   many = {.type = QT_Q4_K, .rows = 65536};
    CHECK(!enc_cuda_feedback_can(QT_MXFP4));
    CHECK(!enc_cuda_feedback_can(QT_F16));
    CHECK_ERR(enc_cuda_feedback(d->s, &a, &e), ERR_USAGE, "MXFP4");
    CHECK_ERR(enc_cuda_feedback(d->s, &none, &e), ERR_USAGE, "0 rows");
    CHECK_ERR(enc_cuda_feedback(d->s, &many, &e), ERR_USAGE, "65536 rows");
}

int main(void) {
    struct dev d;
    if (!dev_open(&d)) return check_skip("no CUDA device");
    EACH_ORDER(order) {
        dev_small(&d, order == 1);
        rng_seed(&rng, 17);
        if (order == 1) RUN_DEV(test_types, &d);
        RUN_DEV(test_steps, &d);
        RUN_DEV(test_refused, &d);
    }
    dev_close(&d);
    return check_done();
}
