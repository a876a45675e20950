// SPDX-License-Identifier: MIT
/* tests/unit/test_cuda_feedback.c - quantization with second moments writes the same file with a
 * device as without: the whole driver, feedback between rows, chunks of few rows, a device that
 * computes wrong results, lacks memory or fails. `make test`: the emulated device; `make
 * check-cuda`: the real one. */
#include "tests/check.h"

#include <unistd.h>

#include "base/io.h"
#include "base/rng.h"
#include "calib/moments.h"
#include "containers/gguf.h"
#include "kernels/cuda/cuda.h"
#include "kernels/dev_product.h"
#include "quantize/hessian_file.h"
#include "quantize/quantize.h"
#include "tests/cuda-emu/control.h"

static char dir[64];
static char *path(const char *name) {
    static char buf[16][128];
    static int at;
    char *p = buf[at++ % 16];
    snprintf(p, 128, "%s/%s", dir, name);
    return p;
}

static const struct spec {
    const char *name;
    int64_t k, rows, mats;
} tensors[] = {
    {"blk.0.attn_output.weight", 96, 19, 1}, /* columns for types with blocks of 32 */
    {"blk.0.attn_v.weight", 512, 37, 1},
    {"blk.0.ffn_down_exps.weight", 256, 20, 2},
};
enum { N_T = sizeof tensors / sizeof tensors[0], TOKENS = 1500, MOST = 512 };

/* Writes the model; `large` 0, or a weight of the second tensor. */
static void write_model(const char *file, float large) {
    static float x[512 * 40];
    struct err e;
    struct rng r;
    struct gguf_w *w = gguf_w_new();
    gguf_w_str(w, "general.architecture", "testarch");
    gguf_w_u32(w, "testarch.block_count", 1);
    gguf_w_u32(w, "testarch.expert_count", 2);
    for (int i = 0; i < N_T; i++) {
        const int64_t ne[3] = {tensors[i].k, tensors[i].rows, tensors[i].mats};
        CHECK_OK(gguf_w_tensor(w, tensors[i].name, QT_F32, 3, ne, &e));
    }
    CHECK_OK(gguf_w_begin(w, file, true, &e));
    rng_seed(&r, 3);
    for (int i = 0; i < N_T; i++) {
        const int64_t n = tensors[i].k * tensors[i].rows * tensors[i].mats;
        for (int64_t k = 0; k < n; k++) x[k] = 0.05f * rng_normal(&r);
        if (i == 1 && large != 0) x[512 * 35 + 77] = large;
        CHECK_OK(gguf_w_data(w, x, (uint64_t)n * sizeof *x, &e));
    }
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
}

/* Returns the moments of correlated random vectors of n values, one sum per matrix and half. */
static struct gram_input moments(const char *name, int64_t n, int64_t mats, struct rng *r) {
    struct gram_input in = {.n = n, .block = n, .n_mat = mats};
    float v[MOST];
    in.name = strdup(name);
    for (int h = 0; h < GRAM_HALVES; h++) {
        float *sum = calloc((size_t)(mats * n * n), sizeof *sum),
              *count = calloc((size_t)mats, sizeof *count);
        for (int64_t t = 0; t < TOKENS; t++) {
            float *to = sum + t % mats * n * n;
            for (int64_t i = 0; i < n; i++) v[i] = rng_normal(r) + (i ? 0.9f * v[i - 1] : 0);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n; j++) to[i * n + j] += v[i] * v[j];
            count[t % mats]++;
        }
        in.sum[h] = sum;
        in.count[h] = count;
    }
    return in;
}

static void write_moments(void) {
    struct err e;
    struct rng r;
    struct gram_input in[2 * N_T];
    struct gram_weight w[2 * N_T];
    struct gram g = {.input = in, .weight = w, .n_chunks = 16, .chunk_size = 64};
    rng_seed(&r, 5);
    for (int i = 0; i < N_T; i++) {
        char out[64];
        snprintf(out, sizeof out, GRAM_OUT "%s", tensors[i].name);
        in[i] = moments(tensors[i].name, tensors[i].k, i == 2 ? 2 : 1, &r);
        w[i] = (struct gram_weight){in[i].name, i};
        if (i == 0) continue; /* its rows are independent */
        in[N_T + i - 1] = moments(out, tensors[i].rows, 1, &r);
        w[N_T + i - 1] = (struct gram_weight){in[N_T + i - 1].name, N_T + i - 1};
    }
    g.n_inputs = g.n_weights = 2 * N_T - 1;
    CHECK_OK(gram_write(&g, path("g.gguf"), true, &e));
    for (int i = 0; i < 2 * N_T - 1; i++) {
        free(in[i].name);
        for (int h = 0; h < GRAM_HALVES; h++) {
            free((void *)(uintptr_t)in[i].sum[h]);
            free((void *)(uintptr_t)in[i].count[h]);
        }
    }
}

/* Quantizes to `out`; returns the number of tensors that the device encoded. */
static int64_t quantize(const char *recipe, const char *out, enum qdev_use use,
                        uint64_t max_bytes) {
    struct err e;
    struct quantize_report r;
    const struct quantize_opts o = {.in = path("in.gguf"),
                                    .out = out,
                                    .recipe = recipe,
                                    .gram = path("g.gguf"),
                                    .overwrite = true,
                                    .device = {.use = use, .max_bytes = max_bytes}};
    CHECK_OK(quantize_run(&o, &r, &e));
    CHECK_EQ_I64(r.n_feedback, N_T);
    return r.n_cuda;
}

/* Encodes with and without the device and compares the files. Returns the number of tensors that
 * the device encoded. */
static int64_t both_ways(const char *recipe, enum qdev_use use, uint64_t max_bytes) {
    struct err e;
    char *p = NULL, *q = NULL;
    size_t n = 0, m = 0;
    CHECK_EQ_I64(quantize(recipe, path("cpu.gguf"), QDEV_NONE, 0), 0);
    const int64_t n_cuda = quantize(recipe, path("cuda.gguf"), use, max_bytes);
    CHECK_OK(io_read_file(&p, &n, path("cpu.gguf"), 1 << 24, &e));
    CHECK_OK(io_read_file(&q, &m, path("cuda.gguf"), 1 << 24, &e));
    CHECK(n > 1000 && n == m && memcmp(p, q, n) == 0);
    free(p);
    free(q);
    return n_cuda;
}

static void test_same_file(void) {
    CHECK_EQ_I64(both_ways("Q4_K_S", QDEV_MUST, 0), N_T);
    CHECK_EQ_I64(both_ways("Q3_K_S", QDEV_MUST, 0), N_T);
    CHECK_EQ_I64(both_ways("Q4_0", QDEV_MUST, 0), N_T);
}

/* Tests a limit that leaves room for eight rows at a time: three chunks in a stage of rows that do
 * not depend on one another, and less than a stage of those that do. */
static void test_chunks(void) {
    CHECK_EQ_I64(both_ways("Q4_0", QDEV_MUST, 2600000), N_T);
}

/* Tests a weight that the type cannot hold, in a row that is no sample for the shrinkage. */
static void test_too_large(void) {
    write_model(path("large.gguf"), 1e9f);
    for (int use = QDEV_NONE; use <= QDEV_MUST; use++) {
        struct err e;
        struct quantize_report r;
        const struct quantize_opts o = {.in = path("large.gguf"),
                                        .out = path("x.gguf"),
                                        .recipe = "Q4_1",
                                        .gram = path("g.gguf"),
                                        .overwrite = true,
                                        .device = {.use = (enum qdev_use)use}};
        CHECK_ERR(quantize_run(&o, &r, &e), ERR_DATA, "row 35, column 77 is too large for Q4_1");
    }
}

static void test_wrong_device(void) {
    if (!emu_flip) return;
    emu_flip(48);
    CHECK_EQ_I64(both_ways("Q4_K_S", QDEV_TRY, 0), 0);
    emu_flip(0);
}

/* Tests a device with room for the moments of the smallest input only: the CPU encodes the other
 * tensors. */
static void test_no_room(void) {
    CHECK_EQ_I64(both_ways("Q4_K_S", QDEV_MUST, 1 << 18), 1);
}

/* Collects the moments of rows [T][W] in blocks of 256 columns; dev NULL: on the CPU. */
enum { T = 300, W = 768 };
static struct gram_col *collect(const float *rows, struct dev_product *dev, struct gram *g) {
    const struct gr_weight w = {.name = "blk.0.attn_q.weight", .ne = {W, 4, 1}};
    struct gram_col *c = NULL;
    struct err e;
    CHECK_OK(gram_col_new(&c, 256, KERN_REF, NULL, &e));
    gram_col_device(c, dev);
    gram_col_see(c, &w, -1, rows, NULL, T, W);
    CHECK_OK(gram_col_settle(c, T, &e));
    gram_col_chunk(c, 0);
    gram_col_see(c, &w, -1, rows, NULL, T, W);
    CHECK_OK(gram_col_finish(c, g, &e));
    return c;
}

/* Tests moments on a device against sums in double. lost: the device fails after the first block,
 * and the CPU computes the others. */
static void moments_there(bool lost) {
    static float rows[T * W];
    struct dev_product *dev;
    struct gram g;
    struct err e;
    struct rng r;
    rng_seed(&r, 9);
    for (int i = 0; i < T * W; i++) rows[i] = rng_normal(&r);
    CHECK_OK(dev_product_new(&dev, 0, 0, NULL, &e));
    gram_init(&g);
    if (lost) emu_lose(3);
    struct gram_col *c = collect(rows, dev, &g);
    for (int i = 0; i < W; i++)
        for (int j = i / 256 * 256; j < i / 256 * 256 + 256; j++) {
            double s = 0, size = 0;
            for (int t = 0; t < T; t++) {
                const double v = (double)rows[t * W + i] * (double)rows[t * W + j];
                s += v;
                size += fabs(v);
            }
            CHECK_CLOSE(g.input[0].sum[0][i * 256 + j % 256], s, T * 0x1p-24 * size);
        }
    gram_release(&g);
    gram_col_free(c);
    dev_product_free(dev);
}
static void test_moments(void) {
    moments_there(false);
}

/* Tests a device that fails in each of its first waits; the last test, because it stays so. */
static void test_failure(void) {
    struct err e;
    struct quantize_report r;
    const struct quantize_opts o = {.in = path("in.gguf"),
                                    .out = path("x.gguf"),
                                    .recipe = "Q4_K_S",
                                    .gram = path("g.gguf"),
                                    .overwrite = true,
                                    .device = {.use = QDEV_MUST}};
    if (!emu_lose) return;
    moments_there(true);
    emu_lose(2);
    CHECK(both_ways("Q4_K_S", QDEV_TRY, 0) < N_T);
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_SYS, "");
    emu_lose(0);
}

int main(void) {
    if (!cu_built() || cu_count() == 0) return check_skip("no CUDA device");
    snprintf(dir, sizeof dir, "/tmp/hone_cuda_feedback_XXXXXX");
    if (!mkdtemp(dir)) return 1;
    write_model(path("in.gguf"), 0);
    write_moments();
    RUN(test_same_file);
    RUN(test_chunks);
    RUN(test_too_large);
    RUN(test_wrong_device);
    RUN(test_no_room);
    RUN(test_moments);
    RUN(test_failure);
    static const char *const made[] = {"in.gguf",   "g.gguf",     "cpu.gguf",
                                       "cuda.gguf", "large.gguf", "x.gguf"};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) unlink(path(made[i]));
    rmdir(dir);
    return check_done();
}
