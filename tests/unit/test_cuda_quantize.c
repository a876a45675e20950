// SPDX-License-Identifier: MIT
/* tests/unit/test_cuda_quantize.c - quantization with a device writes the same file as the CPU: the
 * whole driver, several recipes at once, encoder errors for mixes, little device memory, a device
 * that computes wrong results, and jobs that it must refuse. `make test`: the emulated device;
 * `make check-cuda`: the real one. */
#include "tests/check.h"

#include <math.h>
#include <unistd.h>

#include "base/fp.h"
#include "containers/gguf.h"
#include "quantize/imat_file.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/cuda/cuda.h"
#include "quantize/quantize.h"
#include "mix/sens.h"
#include "tests/cuda-emu/control.h"

static char dir[64];
static char *path(const char *name) {
    static char buf[32][128];
    static int at;
    char *p = buf[at++ % 32];
    snprintf(p, 128, "%s/%s", dir, name);
    return p;
}

static const struct spec {
    const char *name;
    int64_t ne[3];
    enum qtype type;
} tensors[] = {
    {"token_embd.weight", {256, 11, 1}, QT_F32},
    {"blk.0.attn_v.weight", {512, 9, 1}, QT_BF16},
    {"blk.0.attn_output.weight", {96, 7, 1}, QT_F16}, /* not a multiple of 256 */
    {"blk.0.ffn_down_exps.weight", {512, 5, 3}, QT_BF16},
    {"blk.1.ffn_down_exps.weight", {256, 3, 3}, QT_Q8_0},
    {"output.weight", {256, 11, 1}, QT_BF16},
};
enum { N_T = sizeof tensors / sizeof tensors[0], MOST = 512 * 5 * 3 };

/* odd_at >= 0: that weight of the experts in BF16 has the bits `odd`. */
static void write_model(const char *file, int64_t odd_at, unsigned odd) {
    static float x[MOST];
    static uint8_t bytes[MOST * 4];
    struct err e;
    struct rng r;
    struct gguf_w *w = gguf_w_new();
    gguf_w_str(w, "general.architecture", "testarch");
    gguf_w_u32(w, "testarch.block_count", 2);
    gguf_w_u32(w, "testarch.expert_count", 3);
    for (int i = 0; i < N_T; i++)
        CHECK_OK(gguf_w_tensor(w, tensors[i].name, tensors[i].type, 3, tensors[i].ne, &e));
    CHECK_OK(gguf_w_begin(w, file, true, &e));
    rng_seed(&r, 3);
    for (int i = 0; i < N_T; i++) {
        const int64_t k = tensors[i].ne[0], rows = tensors[i].ne[1] * tensors[i].ne[2];
        const uint64_t row = qtype_row_bytes(tensors[i].type, k);
        for (int64_t n = 0; n < k * rows; n++) x[n] = 0.05f * rng_normal(&r);
        for (int64_t n = 0; n < rows; n++)
            enc_find(tensors[i].type)
                ->row(x + n * k, NULL, k, bytes + (uint64_t)n * row, SEARCH_FAST);
        if (i == 3 && odd_at >= 0) {
            bytes[2 * odd_at] = (uint8_t)odd;
            bytes[2 * odd_at + 1] = (uint8_t)(odd >> 8);
        }
        CHECK_OK(gguf_w_data(w, bytes, row * (uint64_t)rows, &e));
    }
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
}

static void write_imatrix(const char *file) {
    struct err e;
    struct imat m;
    struct rng r;
    imat_init(&m);
    rng_seed(&r, 9);
    for (int b = 0; b < 2; b++) {
        const int64_t k = tensors[3 + b].ne[0];
        struct imat_entry *en = imat_add(&m, tensors[3 + b].name, k, 3);
        for (int64_t i = 0; i < 3 * k; i++) en->sum2[i] = rng_unit(&r) * (i % 7 == 0 ? 50 : 1);
        for (int i = 0; i < 3; i++) en->count[i] = 100 * (i + 1);
    }
    imat_add_dataset(&m, "calib.txt");
    CHECK_OK(imat_write(&m, file, IMAT_GGUF, true, &e));
    imat_release(&m);
}

static struct quantize_opts opts(const char *recipe, const char *out, enum search search,
                                 enum qdev_use use) {
    return (struct quantize_opts){.in = path("in.gguf"),
                                  .out = out,
                                  .recipe = recipe,
                                  .imatrix = path("imat.gguf"),
                                  .search = search,
                                  .overwrite = true,
                                  .device = {.use = use}};
}

static void same_files(const char *a, const char *b) {
    struct err e;
    char *p = NULL, *q = NULL;
    size_t n = 0, m = 0;
    CHECK_OK(io_read_file(&p, &n, a, 1 << 24, &e));
    CHECK_OK(io_read_file(&q, &m, b, 1 << 24, &e));
    CHECK(n > 1000 && n == m && memcmp(p, q, n) == 0);
    free(p);
    free(q);
}

/* Encodes with and without the device and compares the files. max_bytes: limit on device memory.
 * Returns the number of tensors that the device encoded. */
static int64_t both_ways(const char *recipe, enum search search, uint64_t max_bytes) {
    struct err e;
    struct quantize_report r = {0};
    struct quantize_opts o = opts(recipe, path("cpu.gguf"), search, QDEV_NONE);
    CHECK_OK(quantize_run(&o, &r, &e));
    CHECK(r.n_cuda == 0);
    o = opts(recipe, path("cuda.gguf"), search, QDEV_MUST);
    o.device.max_bytes = max_bytes;
    CHECK_OK(quantize_run(&o, &r, &e));
    same_files(path("cpu.gguf"), path("cuda.gguf"));
    return r.n_cuda;
}

static void test_same_file(void) {
    CHECK_EQ_I64(both_ways("Q4_K_M", SEARCH_FAST, 0), 6);
    CHECK_EQ_I64(both_ways("Q3_K_S", SEARCH_BEST, 0), 6);
    CHECK_EQ_I64(both_ways("Q4_0", SEARCH_CONVENTIONAL, 0), 6);
    CHECK_EQ_I64(both_ways("IQ3_M", SEARCH_FAST, 1 << 20), 6); /* grid types, a few rows at a
                                                                * time */
    CHECK_EQ_I64(both_ways("IQ3_S", SEARCH_CONVENTIONAL, 0), 6);
}

/* Tests chunks of few rows, with both streams delayed as long as possible. */
static void test_small_chunks(void) {
    for (unsigned lags = 0; lags < (emu_defer ? 4 : 1); lags++) {
        if (emu_defer) emu_defer(lags);
        CHECK_EQ_I64(both_ways("Q5_K_M", SEARCH_FAST, 64 << 10), 6);
    }
    if (emu_defer) emu_defer(0);
}

static void test_several(void) {
    struct err e;
    struct quantize_report r[2];
    struct quantize_opts o[2] = {opts("Q4_K_M", path("a.gguf"), SEARCH_FAST, QDEV_MUST),
                                 opts("Q4_K_S", path("b.gguf"), SEARCH_FAST, QDEV_MUST)};
    CHECK_OK(quantize_run_many(o, 2, r, &e));
    CHECK(r[0].n_cuda == 6 && r[1].n_cuda == 6);
    for (int k = 0; k < 2; k++) {
        struct quantize_opts one = opts(o[k].recipe, path("one.gguf"), SEARCH_FAST, QDEV_NONE);
        CHECK_OK(quantize_run(&one, r, &e));
        same_files(path("one.gguf"), o[k].out);
    }
}

static void test_wrong_device(void) {
    if (!emu_flip) return;
    emu_flip(600); /* does not hit the list of rows with NaN or infinity */
    CHECK_EQ_I64(both_ways("Q4_K_M", SEARCH_FAST, 0), 0);
    emu_flip(0);
}

/* Compares the errors of all types on sampled rows, from which a mix is chosen, and a whole
 * tensor. */
static void errors_both_ways(unsigned flip) {
    struct err e;
    struct gguf *g = NULL;
    struct imat imat;
    struct sens s[2];
    void *data[2] = {NULL};
    int64_t experts = -1;
    imat_init(&imat);
    CHECK_OK(gguf_open(&g, path("in.gguf"), 0, &e));
    CHECK_OK(imat_read(&imat, path("imat.gguf"), &e));
    for (int64_t i = 0; i < gguf_n_tensors(g); i++)
        if (strcmp(gguf_tensor_at(g, i)->name, tensors[3].name) == 0) experts = i;
    for (int k = 0; k < 2; k++) {
        const struct qdev_want want = {.use = k ? QDEV_MUST : QDEV_NONE};
        struct sens_source from = {.g = g, .imat = &imat};
        CHECK_OK(qdev_open(&from.dev, &want, NULL, &e));
        CHECK_OK(sens_init(&s[k], g, &e));
        if (flip && k) emu_flip(flip);
        CHECK_OK(sens_errors(&s[k], &from, &e));
        CHECK_OK(sens_encode(&from, experts, QT_Q4_K, SEARCH_FAST, &data[k], &e));
        if (flip) emu_flip(0);
        bool takes; /* false once wrong results have been detected */
        const struct qdev_tensor small = {
            .from = QT_F32, .to = QT_Q4_0, .k = 32, .rows = 1, .n_mat = 1};
        CHECK_OK(qdev_tensor(from.dev, &small, &takes, &e));
        CHECK(takes == (k && !flip));
        qdev_close(from.dev);
    }
    CHECK(s[0].n_groups > 3);
    for (int i = 0; i < s[0].n_groups; i++)
        CHECK(memcmp(s[0].group[i].err, s[1].group[i].err, sizeof s[0].group[i].err) == 0);
    CHECK(memcmp(data[0], data[1], (size_t)(qtype_row_bytes(QT_Q4_K, 512) * 5 * 3)) == 0);
    for (int k = 0; k < 2; k++) {
        mem_free(data[k]);
        sens_release(&s[k]);
    }
    imat_release(&imat);
    gguf_close(g);
}
static void test_errors(void) {
    errors_both_ways(0);
    if (emu_flip) errors_both_ways(600);
}

static void test_refused(void) {
    struct err e;
    char want[sizeof e.msg];
    struct quantize_report r;
    struct quantize_opts o = opts("Q4_K_M", path("x.gguf"), SEARCH_FAST, QDEV_MUST);
    o.device.max_bytes = 1000;
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_SYS, "--max-vram");
    o.device.use = QDEV_TRY;
    CHECK_OK(quantize_run(&o, &r, &e));
    CHECK_EQ_I64(r.n_cuda, 0);
    o.device.use = QDEV_MUST;
    o.device.index = 99;
    CHECK_ERR(quantize_run(&o, &r, &e), ERR_SYS, "no CUDA device 99");
    o.device.use = QDEV_TRY;
    CHECK_OK(quantize_run(&o, &r, &e));

    static const struct {
        unsigned bits; /* of a BF16 */
        const char *want;
    } odd[] = {{0x7fc0, "holds NaN or infinity at row 7, column 33"},
               {0xff80, "holds NaN or infinity at row 7, column 33"},
               {0x7f00, "the weight at row 7, column 33 is too large for"}};
    for (int i = 0; i < 3; i++) {
        write_model(path("in.gguf"), 512 * 7 + 33, odd[i].bits);
        o = opts("Q4_K_M", path("y.gguf"), SEARCH_FAST, QDEV_NONE);
        CHECK_ERR(quantize_run(&o, &r, &e), ERR_DATA, odd[i].want);
        memcpy(want, e.msg, sizeof want);
        o.device.use = QDEV_MUST;
        CHECK_ERR(quantize_run(&o, &r, &e), ERR_DATA, want);
        CHECK(access(path("y.gguf"), F_OK) != 0);
    }
    write_model(path("in.gguf"), 512 * 7 + 33, 0x4788); /* 69632: large, but blocks hold it */
    CHECK_EQ_I64(both_ways("Q4_K_M", SEARCH_FAST, 0), 6);
    CHECK_EQ_I64(both_ways("IQ3_S", SEARCH_BEST, 1 << 20), 6);
}

int main(void) {
    if (!cu_built() || cu_count() == 0) return check_skip("no CUDA device");
    snprintf(dir, sizeof dir, "/tmp/hone_cuda_quantize_XXXXXX");
    if (!mkdtemp(dir)) return 1;
    write_model(path("in.gguf"), -1, 0);
    write_imatrix(path("imat.gguf"));
    RUN(test_same_file);
    RUN(test_small_chunks);
    RUN(test_several);
    RUN(test_wrong_device);
    RUN(test_errors);
    RUN(test_refused);
    static const char *const made[] = {"in.gguf", "imat.gguf", "cpu.gguf", "cuda.gguf",
                                       "a.gguf",  "b.gguf",    "one.gguf", "x.gguf"};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) unlink(path(made[i]));
    rmdir(dir);
    return check_done();
}
