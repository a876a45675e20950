// SPDX-License-Identifier: MIT
/* tests/unit/test_sizes.c - memory of Qwen3.5-35B-A3B and 27B against published measurements (KV
 * and state as llama.cpp prints them for these models), and what fits a card. */
#include "models/sizes.h"

#include "base/mem.h"
#include "models/fit.h"
#include "tests/check.h"

#define MiB (UINT64_C(1) << 20)

static struct hparams numbers(int64_t layers, int64_t embd, int64_t heads, int64_t kv,
                              int64_t v_heads) {
    struct hparams h = {0};
    h.d[HD_ONE] = 1;
    h.d[HD_LAYERS] = layers;
    h.d[HD_EMBD] = embd;
    h.d[HD_HEADS] = heads;
    h.d[HD_KV_HEADS] = kv;
    h.d[HD_HEAD_DIM] = 256;
    h.d[HD_ROT] = 64;
    h.d[HD_VOCAB] = 248320;
    h.d[HD_CTX] = 262144;
    h.d[HD_FULL_INTERVAL] = 4;
    h.d[HD_LIN_K_HEADS] = 16;
    h.d[HD_LIN_V_HEADS] = v_heads;
    h.d[HD_LIN_K_DIM] = h.d[HD_LIN_V_DIM] = 128;
    h.d[HD_CONV_K] = 4;
    h.f[HF_RMS_EPS] = 1e-6;
    h.f[HF_ROPE_BASE] = 1e7;
    return h;
}

static void sizes_of(struct sizes *z, const char *name, struct hparams *h) {
    struct err e = {0};
    const struct arch *a = arch_find(name);
    struct tensor_inst *t = NULL;
    int64_t n = 0;
    CHECK_OK(a->derive(h, &e));
    CHECK_OK(sizes_init(z, a, h, &e));
    CHECK_OK(arch_tensors(a, h, &t, &n, &e));
    for (int64_t i = 0; i < n; i++) { /* as BF16 */
        uint64_t elems = 1;
        for (int d = 0; d < t[i].n_dims; d++) elems *= (uint64_t)t[i].ne[d];
        sizes_add(z, a, t[i].name, 2 * elems);
    }
    free(t);
}

static struct sizes moe, dense;

static void test_kv_35b(void) {
    static const struct {
        int64_t ctx;
        double f16, q8; /* MiB */
    } published[] = {{4096, 80, 42.5},
                     {32768, 640, 340},
                     {65536, 1280, 680},
                     {131072, 2560, 1360},
                     {262144, 5120, 2720}};
    uint64_t n;
    for (size_t i = 0; i < COUNT_OF(published); i++) {
        CHECK(sizes_kv(&moe, 0, 1, published[i].ctx, QT_F16, false, &n));
        CHECK_CLOSE((double)n / (double)MiB, published[i].f16, 0);
        CHECK(sizes_kv(&moe, 0, 1, published[i].ctx, QT_Q8_0, false, &n));
        CHECK_CLOSE((double)n / (double)MiB, published[i].q8, 0);
    }
    CHECK(sizes_kv(&moe, 0, 1, 1, QT_F16, true, &n) && n == 20480);
    CHECK(sizes_kv(&moe, 0, 1, 1, QT_Q4_0, true, &n) && n == 5760);
    CHECK(!sizes_kv(&moe, 0, 1, INT64_MAX, QT_F16, false, &n)); /* overflow, not wrapped */
    CHECK(!sizes_kv(&moe, 0, 1, INT64_MAX / 30000, QT_F32, false, &n));
    CHECK_EQ_I64(sizes_n_kv(&moe), 10);
    CHECK_EQ_I64(moe.n_blocks + 1, 41); /* "offloaded 41/41 layers" */
}

static void test_state(void) {
    CHECK_EQ_I64(sizes_state(&moe, 0), 65863680);
    CHECK_CLOSE((double)sizes_state(&moe, 0) / (double)MiB, 62.81, 0.005);
    CHECK_CLOSE(4.0 * (double)sizes_state(&moe, 0) / (double)MiB, 251.25, 0.005);
    CHECK_EQ_I64(sizes_n_state(&moe), 30);
    CHECK_EQ_I64(sizes_state(&dense, 0), 156893184);
    CHECK_EQ_I64(sizes_n_state(&dense), 48);
    uint64_t n;
    CHECK(sizes_kv(&dense, 0, 1, 1, QT_F16, false, &n) && n == 65536);
    CHECK(sizes_kv(&dense, 0, 1, 1, QT_Q8_0, false, &n) && n == 34816);
    CHECK(sizes_kv(&dense, 0, 1, 1, QT_Q4_0, false, &n) && n == 18432);
}

/* Tests a window of 1000 tokens: 1512 cells, rounded up to 1536, for each sequence. */
static void test_windows(void) {
    struct sizes *z = xcalloc(1, sizeof *z);
    uint64_t n;
    z->n_blocks = 2;
    z->block[0] = (struct block_size){.kv_heads = 1, .k_dim = 32, .v_dim = 32};
    z->block[1] = z->block[0];
    z->block[1].window = 1000;
    CHECK(sizes_kv(z, 0, 1, 8192, QT_F16, true, &n) && n == 128 * (8192 + 1536));
    CHECK(sizes_kv(z, 0, 4, 8192, QT_F16, true, &n) && n == 128 * 4 * (8192 + 1536));
    CHECK(sizes_kv(z, 0, 4, 1024, QT_F16, true, &n) && n == 128 * 4 * (1024 + 1024));
    free(z);
}

static void test_weights(void) {
    uint64_t embd = UINT64_C(2) * 248320 * 2048, experts = UINT64_C(2) * 3 * 256 * 512 * 2048;
    CHECK_EQ_I64(moe.embd, embd);
    CHECK_EQ_I64(moe.tied_head, 0);
    CHECK_EQ_I64(sizes_weights(&moe) - sizes_device(&moe), embd);
    for (int i = 0; i < 40; i++) CHECK_EQ_I64(moe.block[i].experts, experts);
    CHECK_CLOSE((double)sizes_weights(&moe) / 2, 34.66e9, 0.005e9); /* parameters */
    CHECK_CLOSE((double)sizes_weights(&dense) / 2, 26.89e9, 0.01e9);
    CHECK(sizes_has_experts(&moe) && !sizes_has_experts(&dense));
}

static void test_fit(void) {
    struct fit_ask a = {.reserve = 1024 * MiB, .n_ctx = 32768, .n_slots = 1, .kv_type = QT_F16};
    struct fit f;
    uint64_t need = sizes_device(&moe) + 640 * MiB + 65863680 + fit_compute(&moe) + a.reserve;
    a.memory = need;
    CHECK(fit_find(&moe, &a, &f) && f.way == FIT_ALL);
    CHECK_EQ_I64(f.max_ctx, 32768);
    a.memory = need - 1; /* one byte short: 256 tokens fewer, or one block's experts outside */
    CHECK(fit_find(&moe, &a, &f) && f.way == FIT_EXPERTS && f.n == 1);
    CHECK_EQ_I64(f.max_ctx, 32768 - 256);
    CHECK_EQ_I64(f.use.weights, sizes_device(&moe) - moe.block[0].experts);
    a.memory = need + 10000 * MiB;
    CHECK(fit_find(&moe, &a, &f) && f.max_ctx == 262144); /* never more than the trained length */
    a.memory = 24 * 1024 * MiB; /* BF16 on a 24 GiB card: most experts in main memory */
    CHECK(fit_find(&moe, &a, &f) && f.way == FIT_EXPERTS && f.max_ctx == 0);
    CHECK(f.use.total + a.reserve <= a.memory);
    uint64_t one_more = f.use.total + moe.block[0].experts + a.reserve;
    CHECK(one_more > a.memory); /* the fewest */
    CHECK_EQ_I64(f.host, moe.embd + (uint64_t)f.n * moe.block[0].experts);
    CHECK(fit_find(&dense, &a, &f) && f.way == FIT_BLOCKS && f.n > 20 && f.n < 40);
    uint64_t last = dense.output; /* the head comes first, then the last blocks */
    for (int i = 64 - f.n; i < 64; i++) last += dense.block[i].dense;
    CHECK_EQ_I64(f.use.weights, last);
    CHECK(f.host > sizes_weights(&dense) - last); /* and the cache of the first blocks */
    a.memory = 1024 * MiB;
    CHECK(fit_find(&dense, &a, &f) && f.way == FIT_NONE);
    a.memory = 3500 * MiB; /* too small for 35B-A3B without experts */
    CHECK(fit_find(&moe, &a, &f) && f.way == FIT_BLOCKS && f.n > 0 && f.n < 40);
    CHECK(f.use.weights < UINT64_C(3000) * MiB && f.use.total + a.reserve <= a.memory);
    a.n_slots = INT64_MAX / 4;
    CHECK(!fit_find(&dense, &a, &f));
}

int main(void) {
    struct hparams h = numbers(40, 2048, 16, 2, 32);
    h.d[HD_EXPERTS] = 256;
    h.d[HD_EXPERTS_USED] = 8;
    h.d[HD_FF_EXP] = h.d[HD_FF_SHEXP] = 512;
    sizes_of(&moe, "qwen35moe", &h);
    h = numbers(64, 5120, 24, 4, 48);
    h.d[HD_FF] = 17408;
    sizes_of(&dense, "qwen35", &h);
    RUN(test_kv_35b);
    RUN(test_state);
    RUN(test_windows);
    RUN(test_weights);
    RUN(test_fit);
    return check_done();
}
