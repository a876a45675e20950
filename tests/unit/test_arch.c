// SPDX-License-Identifier: MIT
/* Architecture tables: parameter counts of published models (from the architecture documents), name
 * mapping in both directions, and hyperparameters of hostile GGUF files. */
#include <unistd.h>

#include "containers/gguf.h"
#include "base/mem.h"
#include "models/arch.h"
#include "tests/check.h"

static struct hparams base(int64_t layers, int64_t mtp, int64_t embd, int64_t heads, int64_t kv,
                           int64_t v_heads) {
    struct hparams h = {0};
    h.d[HD_ONE] = 1;
    h.d[HD_VOCAB] = 248320;
    h.d[HD_LAYERS] = layers;
    h.d[HD_MTP] = mtp;
    h.d[HD_EMBD] = embd;
    h.d[HD_HEADS] = heads;
    h.d[HD_KV_HEADS] = kv;
    h.d[HD_HEAD_DIM] = 256;
    h.d[HD_ROT] = 64;
    h.d[HD_FULL_INTERVAL] = 4;
    h.d[HD_LIN_K_HEADS] = 16;
    h.d[HD_LIN_V_HEADS] = v_heads;
    h.d[HD_LIN_K_DIM] = h.d[HD_LIN_V_DIM] = 128;
    h.d[HD_CONV_K] = 4;
    return h;
}

/* Counts the tensors that a conversion writes (never optional ones), and their elements. */
static int64_t count(const char *arch, struct hparams *h, int64_t *params) {
    struct err e;
    struct tensor_inst *t = NULL;
    int64_t n = 0, k = 0;
    const struct arch *a = arch_find(arch);
    *params = 0;
    CHECK(a != NULL);
    if (!a) return 0;
    CHECK_OK(a->derive(h, &e));
    CHECK_OK(arch_tensors(a, h, &t, &n, &e));
    for (int64_t i = 0; i < n; i++) {
        int block = -2;
        CHECK(arch_row(a, t[i].name, &block) == t[i].row);
        CHECK_EQ_I64(block, t[i].block);
        if (t[i].row->flags & TR_OPTIONAL) continue;
        *params += t[i].ne[0] * t[i].ne[1] * t[i].ne[2] * t[i].ne[3];
        k++;
    }
    free(t);
    return k;
}

static void test_counts_of_35b_a3b(void) {
    int64_t params;
    for (int mtp = 0; mtp < 2; mtp++) {
        struct hparams h = base(40, mtp, 2048, 16, 2, 32);
        h.d[HD_EXPERTS] = 256;
        h.d[HD_EXPERTS_USED] = 8;
        h.d[HD_FF_EXP] = h.d[HD_FF_SHEXP] = 512;
        CHECK_EQ_I64(count("qwen35moe", &h, &params), mtp ? 753 : 733);
        if (!mtp) CHECK((double)params > 34.0e9 && (double)params < 35.5e9);
        /* 8192 conv channels: state size in the document */
        CHECK_EQ_I64(h.d[HD_CONV_CH], 8192);
        CHECK_EQ_I64(h.d[HD_QG_OUT], 16 * 512);
    }
}

static void test_counts_of_27b(void) {
    int64_t params;
    for (int mtp = 0; mtp < 2; mtp++) {
        struct hparams h = base(64, mtp, 5120, 24, 4, 48);
        h.d[HD_FF] = 17408;
        CHECK_EQ_I64(count("qwen35", &h, &params), mtp ? 866 : 851);
        if (!mtp) CHECK((double)params > 26.0e9 && (double)params < 28.0e9);
        h.tied = true;
        CHECK_EQ_I64(count("qwen35", &h, &params), mtp ? 865 : 850);
    }
}

static void test_counts_of_30b_a3b(void) {
    int64_t params;
    struct hparams h = base(48, 0, 2048, 32, 4, 16);
    h.d[HD_HEAD_DIM] = h.d[HD_ROT] = 128;
    h.d[HD_VOCAB] = 151936;
    h.d[HD_EXPERTS] = 128;
    h.d[HD_EXPERTS_USED] = 8;
    h.d[HD_FF_EXP] = 768;
    CHECK_EQ_I64(count("qwen3moe", &h, &params), 579);
    CHECK((double)params > 30.0e9 && (double)params < 31.0e9);
}

static void test_row_names(void) {
    const struct arch *a = arch_find("qwen35moe");
    int b = 7;
    CHECK(arch_row(a, "blk.12.ffn_down_exps.weight", &b)->role == ROLE_EXP_DOWN && b == 12);
    CHECK(arch_row(a, "token_embd.weight", &b)->role == ROLE_TOKEN_EMBD && b == -1);
    static const char *const no[] = {"blk.012.attn_norm.weight",
                                     "blk..attn_norm.weight",
                                     "blk.1.attn_norm.weight2",
                                     "blk.512.attn_norm.weight",
                                     "blk.99999999999999999999.attn_norm.weight",
                                     "",
                                     "blk.1.",
                                     "blk.-1.attn_norm.weight"};
    for (size_t i = 0; i < COUNT_OF(no); i++) CHECK(arch_row(a, no[i], &b) == NULL);
    struct err e = {0};
    CHECK_ERR(arch_refuse("a.gguf", "llama9", &e), ERR_DATA, "llama9 is not known");
    CHECK_ERR(arch_refuse_class("a", "NineForCausalLM", &e), ERR_DATA, "NineForCausalLM");
    CHECK(arch_find("llama9") == NULL && arch_find_hf("Nothing") == NULL && arch_at(99) == NULL);
    for (int r = 0; r < ROLE_COUNT; r++) CHECK(role_name((enum role)r) != NULL);
    char out[8];
    CHECK(!arch_name(out, sizeof out, "blk.%d.x", 8, 100, 0));
    CHECK(arch_name(out, sizeof out, "%d.%e", 5, 10, 2) && strcmp(out, "10.2") == 0);
}

static void test_names_of_all_architectures_fit(void) {
    for (int i = 0; arch_at(i); i++)
        for (const struct tensor_row *r = arch_at(i)->tensors; r->gguf; r++) {
            char out[64];
            CHECK(arch_name(out, sizeof out, r->gguf, strlen(r->gguf), HP_MAX_LAYERS - 1, 0));
            const struct tensor_row *first = arch_row(arch_at(i), out, NULL);
            CHECK(first && strcmp(first->gguf, r->gguf) == 0 && first->role == r->role);
        }
}

/* ---- hyperparameters from GGUF ---- */

static char path[] = "/tmp/hone-test-arch-XXXXXX";
static const char *const keys[] = {"block_count",
                                   "context_length",
                                   "embedding_length",
                                   "attention.head_count",
                                   "attention.head_count_kv",
                                   "attention.key_length",
                                   "attention.value_length",
                                   "ssm.conv_kernel",
                                   "ssm.state_size",
                                   "ssm.group_count",
                                   "ssm.time_step_rank",
                                   "ssm.inner_size",
                                   "full_attention_interval",
                                   "rope.dimension_count",
                                   "feed_forward_length",
                                   "nextn_predict_layers"};
static const uint32_t values[] = {5, 4096, 64, 4, 2, 32, 32, 4, 16, 2, 6, 96, 4, 8, 128, 1};

enum { NONE = -1 }; /* no such key */
static struct rope_keys {
    const char *type;
    float factor, scale_linear;
} rope = {NULL, NONE, NONE};

/* Writes the keys of `rope` that are set. */
static void write_rope(struct gguf_w *w) {
    if (rope.type) gguf_w_str(w, "qwen35.rope.scaling.type", rope.type);
    if (rope.factor > NONE) gguf_w_f32(w, "qwen35.rope.scaling.factor", rope.factor);
    if (rope.scale_linear > NONE) gguf_w_f32(w, "qwen35.rope.scale_linear", rope.scale_linear);
}

/* Writes a GGUF of a small qwen35 with one key changed (UINT32_MAX: omitted), and reads its
 * hyperparameters.
 */
static int with_key(const char *name, uint32_t v, struct hparams *h, struct err *e) {
    struct gguf_w *w = gguf_w_new();
    struct gguf *g = NULL;
    static const float data[64 * 9];
    static const int64_t ne[2] = {64, 9};
    static const int32_t sections[4] = {2, 1, 1, 0};
    int rc;
    gguf_w_str(w, "general.architecture", "qwen35");
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        char key[96];
        snprintf(key, sizeof key, "qwen35.%s", keys[i]);
        bool it = name && strcmp(name, keys[i]) == 0;
        if (!it || v != UINT32_MAX) gguf_w_u32(w, key, it ? v : values[i]);
    }
    gguf_w_f32(w, "qwen35.attention.layer_norm_rms_epsilon", 1e-6f);
    gguf_w_f32(w, "qwen35.rope.freq_base", 1e7f);
    write_rope(w);
    if (!name || strcmp(name, "sections") != 0)
        gguf_w_arr(w, "qwen35.rope.dimension_sections", GV_I32, sections, 4);
    TRY_GOTO(out, rc, gguf_w_tensor(w, "token_embd.weight", QT_F32, 2, ne, e));
    TRY_GOTO(out, rc, gguf_w_begin(w, path, true, e));
    TRY_GOTO(out, rc, gguf_w_data(w, data, sizeof data, e));
    TRY_GOTO(out, rc, gguf_w_commit(w, e));
    TRY_GOTO(out, rc, gguf_open(&g, path, 0, e));
    rc = hparams_from_gguf(h, arch_find("qwen35"), g, e);
out:
    gguf_close(g);
    gguf_w_free(w);
    return rc;
}

static void test_hparams_from_gguf(void) {
    struct err e;
    struct hparams h;
    CHECK_OK(with_key(NULL, 0, &h, &e));
    CHECK_EQ_I64(h.d[HD_LAYERS], 4);
    CHECK_EQ_I64(h.d[HD_MTP], 1);
    CHECK_EQ_I64(h.d[HD_VOCAB], 9);
    CHECK_EQ_I64(h.d[HD_LIN_V_DIM], 16);
    CHECK_EQ_I64(h.d[HD_CONV_CH], 2 * 2 * 16 + 96);
    CHECK_EQ_I64(h.d[HD_ROPE_SEC0], 2);
    CHECK(h.tied);
    CHECK_CLOSE(h.f[HF_ROPE_BASE], 1e7, 0);
    for (int i = 0; i < 5; i++) /* every fourth layer has full attention, and so has the MTP
                                 * block */
        CHECK(h.layer[i].mixer == (i < 3 ? MIX_DELTA : MIX_ATTN));
    CHECK_OK(with_key("attention.head_count_kv", UINT32_MAX, &h, &e));
    CHECK_EQ_I64(h.d[HD_KV_HEADS], 4);
}

/* Checks that scaling without a type is linear, by either key, as in llama.cpp's load_hparams. */
static void test_linear_rope(void) {
    static const struct {
        struct rope_keys keys;
        double want; /* 0: no scaling */
    } row[] = {
        {{NULL, NONE, NONE}, 0},  {{NULL, 4, NONE}, 4},        {{NULL, NONE, 4}, 4},
        {{NULL, 4, 8}, 4},        {{NULL, 0, 8}, 0},           {{"linear", 4, NONE}, 4},
        {{"linear", NONE, 4}, 4}, {{"linear", NONE, NONE}, 0}, {{"linear", 0, NONE}, 0},
        {{"none", 4, 4}, 0},
    };
    struct err e;
    struct hparams h;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        rope = row[i].keys;
        CHECK_OK(with_key(NULL, 0, &h, &e));
        CHECK_CLOSE(h.f[HF_ROPE_FACTOR], row[i].want, 0);
    }
    rope = (struct rope_keys){NULL, NONE, 2e6f};
    CHECK_ERR(with_key(NULL, 0, &h, &e), ERR_DATA, "qwen35.rope.scale_linear");
    rope = (struct rope_keys){NULL, -0.5f, NONE};
    CHECK_ERR(with_key(NULL, 0, &h, &e), ERR_DATA, "qwen35.rope.scaling.factor");
    rope = (struct rope_keys){NULL, NONE, NONE};
}

static void test_hostile_hparams(void) {
    struct err e;
    struct hparams h;
    CHECK_ERR(with_key("block_count", UINT32_MAX, &h, &e), ERR_DATA,
              "qwen35.block_count is missing");
    CHECK_ERR(with_key("block_count", 0, &h, &e), ERR_DATA, "out of range");
    CHECK_ERR(with_key("block_count", 1, &h, &e), ERR_DATA, "layers");
    CHECK_ERR(with_key("block_count", 100000, &h, &e), ERR_DATA, "layers");
    CHECK_ERR(with_key("nextn_predict_layers", 9, &h, &e), ERR_DATA, "layers");
    CHECK_ERR(with_key("attention.head_count", 0xfffffffe, &h, &e), ERR_DATA, "too large");
    CHECK_ERR(with_key("attention.head_count", 3, &h, &e), ERR_DATA, "cannot share");
    CHECK_ERR(with_key("attention.value_length", 64, &h, &e), ERR_DATA, "value_length is 64");
    CHECK_ERR(with_key("ssm.inner_size", 97, &h, &e), ERR_DATA, "not a multiple");
    CHECK_ERR(with_key("ssm.inner_size", 3, &h, &e), ERR_DATA, "not a multiple");
    CHECK_ERR(with_key("ssm.group_count", 4, &h, &e), ERR_DATA, "cannot share");
    CHECK_ERR(with_key("full_attention_interval", 0, &h, &e), ERR_DATA, "out of range");
    CHECK_ERR(with_key("rope.dimension_count", 33, &h, &e), ERR_DATA, "rotated");
    CHECK_ERR(with_key("sections", 0, &h, &e), ERR_DATA, "dimension_sections is missing");
}

int main(void) {
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    RUN(test_counts_of_35b_a3b);
    RUN(test_counts_of_27b);
    RUN(test_counts_of_30b_a3b);
    RUN(test_row_names);
    RUN(test_names_of_all_architectures_fit);
    RUN(test_hparams_from_gguf);
    RUN(test_linear_rope);
    RUN(test_hostile_hparams);
    unlink(path);
    return check_done();
}
