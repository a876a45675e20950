// SPDX-License-Identifier: MIT
/* tests/kern/cuda_enc.c - quantization on a device: the bytes must be those of the CPU's encoders,
 * which are held against other tools elsewhere (test_enc). In `make test` under the CPU emulation,
 * in several orders of threads; in `make check-cuda` on the device. */
#include "core/fp.h"
#include "core/rng.h"
#include "quantize/enc/close.h"
#include "quantize/enc/cuda/rows.h"
#include "tests/check.h"
#include "tests/kern/cuda_dev.h"

static struct rng rng;
static const enum qtype types[] = {
#define ROW(T) QT_##T,
    ENC_OPEN_TYPES(ROW)
#undef ROW
};
enum { N_TYPES = sizeof types / sizeof types[0], ROWS = 3, MOST = 768 };

/* Rows of k weights in which every kind of block occurs: plain, zeros, tiny, past f16, one sign,
 * constant, a single weight. */
static void fill(float *x, float *imp, int64_t k) {
    for (int64_t i = 0; i < ROWS * k; i++) {
        const int64_t kind = i / 32 % 12;
        float v = 0.02f * rng_normal(&rng);
        if (kind == 2) v = 0;
        if (kind == 4) v *= 1e-7f;
        if (kind == 6) v *= 3e8f;
        if (kind == 7) v = fabsf(v);
        if (kind == 9) v = 0.25f;
        if (kind == 10) v = i % 32 == 5 ? -v : 0;
        x[i] = i / k == 1 ? v : 0.02f * rng_normal(&rng); /* the second row holds them */
        imp[i] =
            expf(rng_normal(&rng)) * (i % 97 == 3 ? 50 : 1) * (i % 5 == 0 && i / k == 2 ? 0 : 1);
    }
}

struct trial {
    enum qtype type;
    enum search search;
    bool imp, balance;
    int64_t k;
};

static void cpu_rows(const struct trial *t, const float *x, const float *imp, uint8_t *out) {
    static struct enc_open o[MOST / 32];
    const struct enc_blocks *eb = enc_blocks_find(t->type);
    for (int64_t r = 0; r < ROWS; r++) {
        uint8_t *dst = out + (uint64_t)r * qtype_row_bytes(t->type, t->k);
        /* two rows share their importance, as those of a matrix do */
        const float *w = t->imp ? imp + (r + 1) / 2 * t->k : NULL;
        if (t->balance)
            enc_row_balanced(eb, x + r * t->k, w, t->k, dst, t->search, o);
        else
            enc_row(eb, x + r * t->k, w, t->k, dst, t->search);
    }
}

static struct enc_cuda_rows on_device(struct dev *d, const struct trial *t, const float *x,
                                      const float *imp) {
    const struct enc_spec *spec = enc_blocks_find(t->type)->spec;
    const size_t n = (size_t)(ROWS * t->k) * sizeof(float);
    return (struct enc_cuda_rows){
        .how = enc_how_of(spec, t->search),
        .n = ROWS,
        .k = t->k,
        .x = dev_put(d, x, n),
        .imp = t->imp ? dev_put(d, imp, n) : NULL,
        .imp_rows = 2,
        .imp_first = 1,
        .balance = t->balance,
        .out = dev_new(d, (size_t)qtype_row_bytes(t->type, t->k) * ROWS),
        .bad = dev_new(d, ROWS * sizeof(int32_t)),
        .work = dev_new(d, (size_t)enc_cuda_work(spec, ROWS, t->k)),
    };
}

static void same_bytes(struct dev *d, const struct trial *t) {
    static float x[ROWS * MOST], imp[ROWS * MOST];
    static uint8_t want[ROWS * MOST * 2], got[ROWS * MOST * 2];
    const uint64_t row = qtype_row_bytes(t->type, t->k);
    struct err e;
    fill(x, imp, t->k);
    cpu_rows(t, x, imp, want);
    const struct enc_cuda_rows a = on_device(d, t, x, imp);
    int32_t bad[ROWS];
    CHECK_OK(enc_cuda_rows(d->s, &a, &e));
    dev_get(d, got, a.out, (size_t)row * ROWS);
    dev_get(d, bad, a.bad, sizeof bad);
    for (uint64_t i = 0; i < row * ROWS; i++)
        if (got[i] != want[i]) {
            CHECK_FAIL("%s, search %d, importance %d, balance %d: byte %d of row %d: %d, not %d",
                       qtype_name(t->type), (int)t->search, t->imp, t->balance, (int)(i % row),
                       (int)(i / row), got[i], want[i]);
            break;
        }
    for (int r = 0; r < ROWS; r++) CHECK(bad[r] == 0);
    dev_end(d);
}

/* Every type in every search; importance and balance in turn. Blocks of 32: a tile that is not
 * full. */
static void test_types(struct dev *d) {
    for (int t = 0; t < N_TYPES; t++)
        for (int s = 0; s < 3; s++) {
            const enum search search =
                (enum search[]){SEARCH_FAST, SEARCH_BEST, SEARCH_CONVENTIONAL}[s];
            const bool super = qtype_info(types[t])->block_elems == QK;
            struct trial a = {types[t], search, (t + s) % 2 == 0, s != 2, super ? 512 : 352};
            CHECK(enc_cuda_can(types[t]));
            same_bytes(d, &a);
        }
}

/* Importance the other way round, and one order of threads. */
static void test_weights(struct dev *d) {
    for (int t = 0; t < N_TYPES; t++) {
        const struct trial a = {types[t], t % 2 ? SEARCH_FAST : SEARCH_CONVENTIONAL, t % 2 != 0,
                                true, 768};
        same_bytes(d, &a);
    }
}

static void test_not_finite(struct dev *d) {
    static float x[ROWS * 256], imp[ROWS * 256];
    const struct trial t = {QT_Q4_K, SEARCH_FAST, false, true, 256};
    struct err e;
    int32_t bad[ROWS];
    fill(x, imp, 256);
    x[256 + 200] = NAN;
    x[256 + 77] = -INFINITY;
    x[512 + 255] = INFINITY;
    const struct enc_cuda_rows a = on_device(d, &t, x, imp);
    CHECK_OK(enc_cuda_rows(d->s, &a, &e));
    dev_get(d, bad, a.bad, sizeof bad);
    CHECK(bad[0] == 0);
    CHECK(bad[1] == 256 - 77);
    CHECK(bad[2] == 1);
    dev_end(d);
}

static void test_refused(struct dev *d) {
    struct err e;
    struct enc_spec spec = *enc_blocks_find(QT_Q4_K)->spec;
    spec.type = QT_IQ2_S;
    const struct enc_cuda_rows a = {.how = {.s = &spec}, .n = 1, .k = 256};
    CHECK(!enc_cuda_can(QT_IQ2_S));
    CHECK(!enc_cuda_can(QT_F32));
    CHECK_ERR(enc_cuda_rows(d->s, &a, &e), ERR_USAGE, "IQ2_S");
}

int main(void) {
    struct dev d;
    if (!dev_open(&d)) return check_skip("no CUDA device");
    EACH_ORDER(order) {
        dev_small(&d, order == 1);
        rng_seed(&rng, 11);
        if (order != 1) RUN_DEV(test_weights, &d);
        if (order == 1) RUN_DEV(test_types, &d);
        RUN_DEV(test_not_finite, &d);
        RUN_DEV(test_refused, &d);
    }
    dev_close(&d);
    return check_done();
}
