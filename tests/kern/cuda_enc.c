// SPDX-License-Identifier: MIT
/* tests/kern/cuda_enc.c - quantization on a device: the bytes must equal those of the CPU's
 * encoders, which test_enc compares with other tools. `make test` runs this under the CPU
 * emulation, in several thread orders, `make check-cuda` on the device. */
#include "base/fp.h"
#include "base/rng.h"
#include "quantize/enc/pack.h"
#include "quantize/enc/cuda/rows.h"
#include "quantize/enc/grid_pack.h"
#include "tests/check.h"
#include "tests/kern/cuda_dev.h"

static struct rng rng;
static const enum qtype types[] = {
#define ROW(T) QT_##T,
    ENC_RAW_TYPES(ROW)
#undef ROW
};
static const enum qtype grids[] = {
#define ROW(T) QT_##T,
    ENC_GRID_TYPES(ROW)
#undef ROW
};
enum {
    N_TYPES = sizeof types / sizeof types[0],
    N_GRIDS = sizeof grids / sizeof grids[0],
    ROWS = 3,
    MOST = 768
};

/* Fills rows of k weights with every kind of block: ordinary, zero, tiny, beyond f16's range, of
 * one sign, constant, with a single weight; with a scale or a minimum that rounds to -0. In the
 * last row, a super-block has weights whose d would round to 0. */
static void fill(float *x, float *imp, int64_t k) {
    for (int64_t i = 0; i < ROWS * k; i++) {
        const int64_t kind = i / 32 % 12;
        float v = 0.02f * rng_normal(&rng);
        const bool small = i / k == 2 && i % k / 256 == 1;
        if (kind == 2) v = 0;
        if (kind == 3) v = i % 32 == 9 ? 1e-7f : 1e-6f * v;
        if (kind == 4) v *= 1e-7f;
        if (kind == 5) v = i % 32 ? fabsf(v) : -0.0f;
        if (kind == 6) v *= 3e8f;
        if (kind == 7) v = fabsf(v);
        if (kind == 9) v = 0.25f;
        if (kind == 10) v = i % 32 == 5 ? -v : 0;
        /* the second row holds them */
        x[i] = i / k == 1 ? v : (small ? 1e-6f : 0.02f) * rng_normal(&rng);
        imp[i] =
            expf(rng_normal(&rng)) * (i % 97 == 3 ? 50 : 1) * (i % 5 == 0 && i / k == 2 ? 0 : 1);
    }
}

struct trial {
    enum qtype type;
    enum search search;
    bool imp, balance;
    int64_t k;
    int wave;
};

static void cpu_rows(const struct trial *t, const float *x, const float *imp, uint8_t *out) {
    static struct enc_raw o[MOST / 32];
    const struct enc_blocks *eb = enc_blocks_find(t->type);
    for (int64_t r = 0; r < ROWS; r++) {
        uint8_t *dst = out + (uint64_t)r * qtype_row_bytes(t->type, t->k);
        /* two rows share their importance, like the rows of a matrix */
        const float *w = t->imp ? imp + (r + 1) / 2 * t->k : NULL;
        if (!eb) {
            enc_find(t->type)->row(x + r * t->k, w, t->k, dst, t->search);
            if (t->balance) enc_grid_balance(t->type, x + r * t->k, w, t->k, dst);
        } else if (t->balance)
            enc_row_balanced(eb, x + r * t->k, w, t->k, dst, t->search, o);
        else
            enc_row(eb, x + r * t->k, w, t->k, dst, t->search);
    }
}

static void *tables_of(struct dev *d, const struct trial *t) {
    static char host[8 << 20];
    if (!grid_spec_of(t->type)) return NULL;
    const struct grid_how how = grid_how_of(t->type, t->search);
    const uint64_t n = enc_grid_tables(&how, NULL);
    if (n > sizeof host) CHECK_FAIL("tables of %d bytes", (int)n);
    enc_grid_tables(&how, host);
    return dev_put(d, host, (size_t)n);
}

static struct enc_cuda_rows on_device(struct dev *d, const struct trial *t, const float *x,
                                      const float *imp) {
    const size_t n = (size_t)(ROWS * t->k) * sizeof(float);
    return (struct enc_cuda_rows){
        .type = t->type,
        .search = t->search,
        .n = ROWS,
        .k = t->k,
        .x = dev_put(d, x, n),
        .imp = t->imp ? dev_put(d, imp, n) : NULL,
        .imp_rows = 2,
        .imp_first = 1,
        .balance = t->balance,
        .tables = tables_of(d, t),
        .wave = t->wave,
        .out = dev_new(d, (size_t)qtype_row_bytes(t->type, t->k) * ROWS),
        .bad = dev_new(d, ROWS * sizeof(int32_t)),
        .work = dev_new(d, (size_t)enc_cuda_work(t->type, t->search, ROWS, t->k)),
    };
}

/* Compares the rows that the device and the CPU encode; fill() filled x and imp. */
static void same_rows(struct dev *d, const struct trial *t, const float *x, const float *imp) {
    static uint8_t want[ROWS * MOST * 2], got[ROWS * MOST * 2];
    const uint64_t row = qtype_row_bytes(t->type, t->k);
    struct err e;
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
    for (int r = 0; r < ROWS; r++) CHECK(bad[r] <= ENC_ROW_LARGE); /* their weights are finite */
    dev_end(d);
}

static void same_bytes(struct dev *d, const struct trial *t) {
    static float x[ROWS * MOST], imp[ROWS * MOST];
    fill(x, imp, t->k);
    same_rows(d, t, x, imp);
}

/* Tests every type with every search, with and without importance and balancing. Blocks of 32
 * include an incomplete tile. */
static void test_types(struct dev *d) {
    for (int t = 0; t < N_TYPES; t++)
        for (int s = 0; s < 3; s++) {
            const enum search search =
                (enum search[]){SEARCH_FAST, SEARCH_BEST, SEARCH_CONVENTIONAL}[s];
            const bool super = qtype_info(types[t])->block_elems == QK;
            struct trial a = {types[t], search, (t + s) % 2 == 0, s != 2, super ? 512 : 352, 0};
            CHECK(enc_cuda_can(types[t]));
            same_bytes(d, &a);
        }
}

/* Tests the opposite use of importance, in one thread order. */
static void test_weights(struct dev *d) {
    for (int t = 0; t < N_TYPES; t++) {
        const struct trial a = {
            types[t], t % 2 ? SEARCH_FAST : SEARCH_CONVENTIONAL, t % 2 != 0, true, 768, 0};
        same_bytes(d, &a);
    }
}

/* Tests grid types, some with few super-blocks at a time. The conventional search is part of best;
 * grid_weights tests the largest grids with fast. */
static void test_grids(struct dev *d) {
    for (int t = 0; t < N_GRIDS; t++) {
        const bool large = grid_spec_of(grids[t])->n > 1024;
        const int64_t k = large ? 256 : 512;
        const struct trial best = {grids[t], SEARCH_BEST, t % 2 != 0, true, k, t % 3 == 0 ? 2 : 0},
                           fast = {grids[t], SEARCH_FAST, t % 2 == 0, false, k, 0},
                           plain = {grids[t], SEARCH_CONVENTIONAL, t % 2 == 0, false, k, 0};
        CHECK(enc_cuda_can(grids[t]));
        same_bytes(d, &best);
        same_bytes(d, &plain);
        if (!large) same_bytes(d, &fast);
    }
}

/* Tests columns without importance, which have hundreds of entries above the polyline, more than a
 * device lists; and an almost zero row after one that left its chains. */
static void test_long_lists(struct dev *d) {
    static const enum qtype some[] = {QT_IQ3_S, QT_IQ2_S, QT_IQ1_M};
    static float x[ROWS * 256], imp[ROWS * 256];
    for (int t = 0; t < 3; t++) {
        const struct trial a = {some[t], t == 1 ? SEARCH_BEST : SEARCH_FAST, true, false, 256, 1};
        fill(x, imp, 256);
        for (int i = 0; i < ROWS * 256; i++) {
            x[i] = i < 512 ? 0.02f * rng_normal(&rng) : i % 2 ? 1e-9f : 0;
            if (i % 3) imp[i] = 0;
        }
        same_rows(d, &a, x, imp);
    }
}

/* Tests every other type in the remaining thread orders, with the opposite use of importance. */
static void grid_weights(struct dev *d, int first) {
    for (int t = first; t < N_GRIDS; t += 2) {
        const struct trial a = {grids[t], SEARCH_FAST, t % 2 != 0, true, 256, 0};
        same_bytes(d, &a);
    }
}
static void test_grid_weights_even(struct dev *d) {
    grid_weights(d, 0);
}
static void test_grid_weights_odd(struct dev *d) {
    grid_weights(d, 1);
}

/* Tests rows with NaN or infinity, and a row with a weight that scales may be unable to
 * represent. */
static void not_finite(struct dev *d, enum qtype type) {
    static float x[ROWS * 256], imp[ROWS * 256];
    const struct trial t = {type, SEARCH_FAST, false, true, 256, 0};
    struct err e;
    int32_t bad[ROWS];
    fill(x, imp, 256);
    x[256 + 200] = NAN;
    x[256 + 77] = -INFINITY;
    x[512 + 255] = INFINITY;
    x[3] = ENC_LARGE;
    const struct enc_cuda_rows a = on_device(d, &t, x, imp);
    CHECK_OK(enc_cuda_rows(d->s, &a, &e));
    dev_get(d, bad, a.bad, sizeof bad);
    CHECK(bad[0] == 0);
    CHECK(bad[1] == ENC_ROW_LARGE + 256 - 77);
    CHECK(bad[2] == ENC_ROW_LARGE + 1);
    dev_end(d);
    x[4] = -65536.0f;
    const struct enc_cuda_rows b = on_device(d, &t, x, imp);
    CHECK_OK(enc_cuda_rows(d->s, &b, &e));
    dev_get(d, bad, b.bad, sizeof bad);
    CHECK(bad[0] == ENC_ROW_LARGE);
    dev_end(d);
}

static void test_not_finite(struct dev *d) {
    not_finite(d, QT_Q4_K);
    not_finite(d, QT_IQ3_XXS);
}

static void test_refused(struct dev *d) {
    struct err e;
    const struct enc_cuda_rows a = {.type = QT_MXFP4, .n = 1, .k = 256};
    CHECK(!enc_cuda_can(QT_MXFP4));
    CHECK(!enc_cuda_can(QT_F32));
    CHECK_ERR(enc_cuda_rows(d->s, &a, &e), ERR_USAGE, "MXFP4");
}

int main(void) {
    struct dev d;
    if (!dev_open(&d)) return check_skip("no CUDA device");
    EACH_ORDER(order) {
        dev_small(&d, order == 1);
        rng_seed(&rng, 11);
        if (order != 1) RUN_DEV(test_weights, &d);
        if (order == 1) RUN_DEV(test_types, &d);
        if (order == 1) RUN_DEV(test_grids, &d);
        if (order == 1) RUN_DEV(test_long_lists, &d);
        if (order == 0) RUN_DEV(test_grid_weights_even, &d);
        if (order == 2) RUN_DEV(test_grid_weights_odd, &d);
        RUN_DEV(test_not_finite, &d);
        RUN_DEV(test_refused, &d);
    }
    dev_close(&d);
    return check_done();
}
