// SPDX-License-Identifier: MIT
/* tests/unit/test_cuda_learn.c - learning of a block with products on a device: as close to the
 * original as on the CPU, and also if the device fails on the way. */
#include <math.h>

#include "base/rng.h"
#include "convert/convert.h"
#include "kernels/cuda/cuda.h"
#include "kernels/dev_product.h"
#include "mix/learn_block.h"
#include "quantize/enc/enc.h"
#include "tests/check.h"
#include "tests/cuda-emu/control.h"
#include "tests/unit/tmpdir.h"
#include "tests/unit/with.h"

enum { N = 40, CHUNKS = 16, PASSES = 3 };
static const char matrix[] = "blk.1.ffn_down.weight";
static struct model *base;
static int32_t ids[CHUNKS * N];
static float *x, *y; /* [CHUNKS][N][width] input and wanted output of block 1 */

/* Opens a golden model as F32 and makes up rows. */
static void set_up(void) {
    struct err e = {0};
    struct convert_report r;
    struct rng rng;
    const struct convert_opts o = {
        .src = "tests/golden/models/mistral", .out = tmp_path("m.gguf"), .type = "f32"};
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&base, tmp_path("m.gguf"), &e));
    const int64_t n = CHUNKS * N * base->hp.d[HD_EMBD];
    x = xcalloc((size_t)n, sizeof *x);
    y = xcalloc((size_t)n, sizeof *y);
    rng_seed(&rng, 4);
    for (int64_t i = 0; i < n; i++) {
        x[i] = rng_normal(&rng);
        y[i] = x[i] + 0.1f * rng_normal(&rng);
    }
}

/* Learns the blocks blk of the matrix. */
static struct learn_block_report learn(uint8_t *blk, struct dev_product *d) {
    struct err e;
    struct learn_block_report r;
    struct model *now = with_weight(base, matrix, blk, QT_Q4_0, NULL);
    struct work w = {.isa = KERN_REF};
    const struct learn_tensor one = {matrix, blk};
    const struct learn_block_opts o = {.o = {.w = &w,
                                             .base = base,
                                             .now = now,
                                             .tensor = &one,
                                             .n_tensors = 1,
                                             .ids = ids,
                                             .ctx = N,
                                             .n_chunks = CHUNKS,
                                             .passes = PASSES,
                                             .products = d},
                                       .block = 1,
                                       .x = x,
                                       .y = y};
    CHECK_OK(learn_block(&o, &r, &e));
    model_close(now);
    return r;
}

/* Returns a device that computes products of any size. */
static struct dev_product *device(uint64_t max_bytes) {
    struct dev_product *d;
    struct err e;
    CHECK_OK(dev_product_new(&d, 0, max_bytes, NULL, &e));
    dev_product_least(d, 0);
    return d;
}
/* Returns whether the device still computes. */
static bool works(struct dev_product *d) {
    const float g[2] = {1, 2}, v[2] = {3, 4};
    float sum[4] = {0};
    return dev_product_outer(d, &(struct dev_pair){g, v, 2, 2, 1, 2, 2}, sum) == 2 && sum[1] == 4 &&
           sum[2] == 6;
}

static void test_learn(void) {
    const struct weight *like = model_find_weight(base, matrix);
    const int64_t n = like->ne[0] * like->ne[1];
    const size_t n_bytes = (size_t)(n / 32) * (size_t)qtype_info(QT_Q4_0)->block_bytes;
    uint8_t *was = xcalloc(3, n_bytes), *cpu = was + n_bytes, *blk = cpu + n_bytes;
    enc_find(QT_Q4_0)->row(like->data, NULL, n, was, SEARCH_FAST);
    memcpy(cpu, was, n_bytes);
    const struct learn_block_report want = learn(cpu, NULL);
    const double gain = want.before - want.after;
    CHECK(gain > 0);
    /* first all on the device; then it fails after some waits, at last at once */
    static const int waits[] = {0, 40, 11, 7, 5, 3, 2, 1};
    for (size_t i = 0; i < COUNT_OF(waits) && (i == 0 || emu_lose); i++) {
        struct dev_product *d = device(0);
        memcpy(blk, was, n_bytes);
        if (i) emu_lose(waits[i]);
        const struct learn_block_report r = learn(blk, d);
        CHECK(works(d) == (i == 0));
        if (i) emu_lose(0);
        CHECK_CLOSE(r.before, want.before, 1e-5 * want.before);
        CHECK_CLOSE(r.after, want.after, 0.05 * gain);
        dev_product_free(d);
    }
    /* no room there: the CPU's bytes */
    struct dev_product *d = device(1 << 15);
    memcpy(blk, was, n_bytes);
    learn(blk, d);
    CHECK(memcmp(blk, cpu, n_bytes) == 0 && !works(d));
    dev_product_free(d);
    free(was);
}

int main(void) {
    if (!cu_built() || cu_count() == 0) return check_skip("no CUDA device");
    tmp_make();
    set_up();
    RUN(test_learn);
    model_close(base);
    free(x);
    free(y);
    tmp_remove();
    return check_done();
}
