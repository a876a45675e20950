// SPDX-License-Identifier: MIT
/* Specs: features that no graph implements yet are rejected with an error that names them, and
 * layers can have individual numbers, from a file's arrays to the shapes of their weights. */
#include <unistd.h>

#include "containers/gguf.h"
#include "base/mem.h"
#include "models/rows.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"

static struct hparams micro(void) {
    struct hparams h = {0};
    static const int64_t v[][2] = {{HD_ONE, 1},      {HD_VOCAB, 97}, {HD_LAYERS, 3},
                                   {HD_CTX, 512},    {HD_EMBD, 64},  {HD_HEADS, 4},
                                   {HD_KV_HEADS, 2}, {HD_FF, 96},    {HD_WINDOW, 8}};
    for (size_t i = 0; i < COUNT_OF(v); i++) h.d[v[i][0]] = v[i][1];
    h.f[HF_RMS_EPS] = 1e-6;
    h.f[HF_ROPE_BASE] = 1e4;
    return h;
}

/* Checks the error for a decoder like Qwen3's with this spec; what NULL: it must be built. */
static void refused(const struct decoder_spec *dec, const struct hparams *h, const char *what) {
    struct arch a = *arch_find("qwen3");
    struct graph g;
    struct err e = {0};
    a.decoder = dec;
    graph_init(&g);
    if (what) {
        CHECK_ERR(arch_build(&a, h, &g, &e), ERR_DATA, what);
        CHECK(strstr(e.msg, "not supported") != NULL);
    } else
        CHECK_OK(arch_build(&a, h, &g, &e));
    graph_release(&g);
}

static void test_refused_by_name(void) {
    struct hparams h = micro();
    struct err e;
    CHECK_OK(layers_fill(&h, &e));
    const struct decoder_spec base = *arch_find("qwen3")->decoder;
    refused(&base, &h, NULL);
#define REFUSED(field, value, what)                                                                \
    do {                                                                                           \
        struct decoder_spec d = base;                                                              \
        d.field = (value);                                                                         \
        refused(&d, &h, what);                                                                     \
    } while (0)
    h.layer[0].limit = 0.1f;
    refused(&base, &h, "limit of SwiGLU");
    h.layer[0].limit = 0;
    REFUSED(block.ffn.router.score, SCORE_SQRT_SOFTPLUS, "root of softplus");
    REFUSED(block.ffn.router.groups, 4, "unequal size");
    h.d[HD_EXPERTS_USED] = 2;
    REFUSED(block.ffn.router.input_scaled, true, "input of several experts");
}

/* ---- numbers by layer ---- */

static const int32_t heads[3] = {4, 8, 4}, kv[3] = {2, 4, 1}, ff[3] = {96, 32, 64};

static void write_file(const int32_t *heads3, uint64_t n) {
    static const float data[64 * 9];
    static const int64_t ne[2] = {64, 9};
    struct err e;
    struct gguf_w *w = gguf_w_new();
    gguf_w_str(w, "general.architecture", "qwen3");
    gguf_w_u32(w, "qwen3.block_count", 3);
    gguf_w_u32(w, "qwen3.context_length", 512);
    gguf_w_u32(w, "qwen3.embedding_length", 64);
    gguf_w_u32(w, "qwen3.attention.key_length", 16);
    gguf_w_f32(w, "qwen3.attention.layer_norm_rms_epsilon", 1e-6f);
    gguf_w_arr(w, "qwen3.attention.head_count", GV_I32, heads3, n);
    gguf_w_arr(w, "qwen3.attention.head_count_kv", GV_I32, kv, 3);
    gguf_w_arr(w, "qwen3.feed_forward_length", GV_I32, ff, 3);
    CHECK_OK(gguf_w_tensor(w, "token_embd.weight", QT_F32, 2, ne, &e));
    CHECK_OK(gguf_w_begin(w, tmp_path("layers.gguf"), true, &e));
    CHECK_OK(gguf_w_data(w, data, sizeof data, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
}
static int read_file(struct hparams *h, struct err *e) {
    struct gguf *g = NULL;
    TRY(gguf_open(&g, tmp_path("layers.gguf"), 0, e));
    int rc = hparams_from_gguf(h, arch_find("qwen3"), g, e);
    gguf_close(g);
    return rc;
}

/* Checks the shape of a layer's weight in the graph. */
static void check_shape(const struct graph *g, const char *name, int layer, int64_t ne0,
                        int64_t ne1) {
    char full[64];
    snprintf(full, sizeof full, "blk.%d.%s", layer, name);
    for (int i = 0; i < g->n_weights; i++)
        if (strcmp(g->weight[i].name, full) == 0) {
            CHECK_EQ_I64(g->weight[i].ne[0], ne0);
            CHECK_EQ_I64(g->weight[i].ne[1], ne1);
            return;
        }
    CHECK_FAIL("no weight %s", full);
}

static void test_numbers_by_layer(void) {
    struct hparams h;
    struct graph g;
    struct err e = {0};
    write_file(heads, 3);
    CHECK_OK(read_file(&h, &e));
    graph_init(&g);
    CHECK_OK(arch_build(arch_find("qwen3"), &h, &g, &e));
    CHECK_EQ_I64(g.n_attn_slots, 3);
    for (int i = 0; i < 3; i++) {
        check_shape(&g, "attn_q.weight", i, 64, 16 * heads[i]);
        check_shape(&g, "attn_k.weight", i, 64, 16 * kv[i]);
        check_shape(&g, "attn_v.weight", i, 64, 16 * kv[i]);
        check_shape(&g, "attn_output.weight", i, 16 * heads[i], 64);
        check_shape(&g, "ffn_up.weight", i, 64, ff[i]);
        check_shape(&g, "ffn_down.weight", i, ff[i], 64);
        const struct gr_node *n = graph_nth(&g, OP_ATTN, i);
        CHECK_EQ_I64(n->attn.n_heads, heads[i]);
        CHECK_EQ_I64(n->attn.n_kv_heads, kv[i]);
        CHECK_EQ_I64(g.facts.kv[n->slot].n_heads, kv[i]);
    }
    graph_release(&g);

    struct gguf_w *w = gguf_w_new(); /* written back to a file as arrays */
    static const float data[64];
    static const int64_t ne[2] = {64, 1};
    struct gguf *f = NULL;
    hparams_write(&h, arch_find("qwen3"), w);
    CHECK_OK(gguf_w_tensor(w, "token_embd.weight", QT_F32, 2, ne, &e));
    CHECK_OK(gguf_w_begin(w, tmp_path("back.gguf"), true, &e));
    CHECK_OK(gguf_w_data(w, data, sizeof data, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    CHECK_OK(gguf_open(&f, tmp_path("back.gguf"), 0, &e));
    const struct gguf_kv *k = f ? gguf_find(f, "qwen3.attention.head_count_kv") : NULL;
    CHECK(k && k->type == GV_ARR && k->count == 3);
    for (int i = 0; i < 3 && k; i++) CHECK_EQ_I64(gguf_kv_i64(k, (uint64_t)i), kv[i]);
    gguf_close(f);
}

static void test_bad_numbers_by_layer(void) {
    static const int32_t odd[3] = {4, 6, 4}, none[3] = {4, 0, 4}, less[2] = {4, 8};
    struct hparams h;
    struct err e = {0};
    write_file(odd, 3);
    CHECK_ERR(read_file(&h, &e), ERR_DATA, "6 attention heads cannot share 4");
    write_file(none, 3);
    CHECK_ERR(read_file(&h, &e), ERR_DATA, "out of range");
    write_file(less, 2);
    CHECK_ERR(read_file(&h, &e), ERR_DATA, "each of 3 layers");
}

static void test_windows(void) {
    struct hparams h = micro();
    struct err e = {0};
    h.d[HD_LAYERS] = 7;
    h.d[HD_HEAD_DIM] = 16;
    h.d_windowed[HD_HEAD_DIM] = 8;
    h.f_windowed[HF_ROPE_BASE] = 500;
    CHECK_OK(layers_windows_hf(&h, NULL, 3, &e));
    CHECK_OK(layers_fill(&h, &e));
    for (int i = 0; i < 7; i++) { /* every third is full */
        const bool full = i % 3 == 2;
        CHECK_EQ_I64(h.layer[i].window, full ? 0 : 8);
        CHECK_EQ_I64(h.layer[i].head_dim, full ? 16 : 8);
        CHECK_CLOSE(h.layer[i].rope_base, full ? 1e4 : 500, 0);
    }
}

/* ---- latent attention ---- */

/* Checks the error for a deepseek2 file with these numbers; NULL: it must be accepted. */
static void latent(uint32_t kv_heads, uint32_t rank, uint32_t key, uint32_t key_mla,
                   const char *what) {
    static const float data[64];
    static const int64_t ne[2] = {64, 1};
    struct err e = {0};
    struct hparams h;
    struct gguf *g = NULL;
    struct gguf_w *w = gguf_w_new();
    gguf_w_str(w, "general.architecture", "deepseek2");
    const struct {
        const char *key;
        uint32_t v;
    } num[] = {{"block_count", 1},
               {"context_length", 512},
               {"embedding_length", 64},
               {"feed_forward_length", 96},
               {"vocab_size", 1},
               {"attention.head_count", 4},
               {"attention.head_count_kv", kv_heads},
               {"attention.kv_lora_rank", rank},
               {"rope.dimension_count", 16},
               {"attention.key_length", key},
               {"attention.value_length", 32},
               {"attention.key_length_mla", key_mla},
               {"attention.value_length_mla", 24}};
    for (size_t i = 0; i < COUNT_OF(num); i++) {
        char key_of[96];
        snprintf(key_of, sizeof key_of, "deepseek2.%s", num[i].key);
        if (num[i].v) gguf_w_u32(w, key_of, num[i].v);
    }
    gguf_w_f32(w, "deepseek2.attention.layer_norm_rms_epsilon", 1e-6f);
    CHECK_OK(gguf_w_tensor(w, "token_embd.weight", QT_F32, 2, ne, &e));
    CHECK_OK(gguf_w_begin(w, tmp_path("latent.gguf"), true, &e));
    CHECK_OK(gguf_w_data(w, data, sizeof data, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
    CHECK_OK(gguf_open(&g, tmp_path("latent.gguf"), 0, &e));
    if (!g) return;
    if (what)
        CHECK_ERR(hparams_from_gguf(&h, arch_find("deepseek2"), g, &e), ERR_DATA, what);
    else {
        CHECK_OK(hparams_from_gguf(&h, arch_find("deepseek2"), g, &e));
        CHECK_EQ_I64(h.d[HD_NOPE], key_mla - 16);
    }
    gguf_close(g);
}
static void test_latent(void) {
    latent(1, 32, 48, 40, NULL);
    latent(4, 32, 48, 40, "an older file"); /* keys and values of single heads ... */
    latent(4, 32, 48, 0, "an older file");  /* ... written by programs that did not know this key */
    latent(1, 32, 40, 40, "does not fit");  /* not rank + 16 */
    latent(1, 48, 64, 40, "does not fit");  /* the value is not the latent row */
    latent(1, 32, 48, 16, "does not fit");  /* nothing but what rope turns */
    latent(1, 32, 48, 2000000000, NULL);    /* 4 of them are no overflow yet */
}

int main(void) {
    tmp_make();
    RUN(test_refused_by_name);
    RUN(test_numbers_by_layer);
    RUN(test_bad_numbers_by_layer);
    RUN(test_windows);
    RUN(test_latent);
    tmp_remove();
    return check_done();
}
