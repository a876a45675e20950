// SPDX-License-Identifier: MIT
/* Keys of GGUF files: micro models (tests/golden/archs) with one key changed, removed or of another
 * type are refused, or compute as llama.cpp's defaults say. A key never changes nothing silently.
 */
#include "base/log.h"
#include "tests/unit/micro.h"

/* A key after "<arch>.": text s, or number v, of a type; GV_COUNT: removed. */
struct set {
    const char *key;
    enum gguf_vtype type;
    double v;
    const char *s;
};
enum { N_SETS = 4 };

/* Copies a file with the keys changed. */
static void write_changed(const struct gguf *g, const struct set *set, const char *path) {
    const char *arch = gguf_str_or(g, "general.architecture", "");
    struct gguf_w *w = gguf_w_new();
    struct err e;
    for (int64_t i = 0; i < gguf_n_kv(g); i++) gguf_w_copy_kv(w, gguf_kv_at(g, i));
    for (int k = 0; k < N_SETS && set[k].key; k++) {
        char *key = xasprintf("%s.%s", arch, set[k].key);
        if (set[k].type == GV_STR)
            gguf_w_str(w, key, set[k].s);
        else if (set[k].type == GV_F32)
            gguf_w_f32(w, key, (float)set[k].v);
        else if (set[k].type == GV_COUNT)
            gguf_w_remove(w, key);
        else
            gguf_w_int(w, key, set[k].type, (int64_t)set[k].v);
        free(key);
    }
    for (int pass = 0; pass < 2; pass++) { /* declarations, data */
        for (int64_t i = 0; i < gguf_n_tensors(g); i++) {
            const struct gguf_tensor *t = gguf_tensor_at(g, i);
            CHECK_OK(pass ? gguf_w_data(w, t->data, t->n_bytes, &e)
                          : gguf_w_tensor(w, t->name, t->type, t->n_dims, t->ne, &e));
        }
        if (!pass) CHECK_OK(gguf_w_begin(w, path, true, &e));
    }
    CHECK_OK(gguf_w_commit(w, &e));
    gguf_w_free(w);
}

/* Returns the logits of a few tokens; m NULL: NULL. */
static float *logits(const struct model *m) {
    static const int32_t ids[] = {5, 900, 33, 4, 512, 77, 8, 301, 5, 64, 700, 12};
    const struct session_opts o = {.n_ctx = COUNT_OF(ids), .isa = kern_isa_best()};
    return m ? golden_run(m, &o, ids, COUNT_OF(ids), golden_all, NULL, NULL, NULL) : NULL;
}

/* Returns the logits with the keys changed; NULL: the file was refused, as it must be if `why` is
 * part of the message. */
static float *changed(const struct model *m, const struct set *set, const char *why) {
    struct model *now = NULL;
    struct err e = {0};
    write_changed(m->gguf, set, tmp_path("changed.gguf"));
    if (why)
        CHECK_ERR(model_open(&now, tmp_path("changed.gguf"), &e), ERR_DATA, why);
    else
        CHECK_OK(model_open(&now, tmp_path("changed.gguf"), &e));
    float *l = logits(now);
    model_close(now);
    return l;
}

struct key_case {
    const char *micro;
    struct set set[N_SETS];
    const char *why;         /* part of the message; NULL: accepted */
    struct set like[N_SETS]; /* keys that give the same logits; none: the original's */
};
static bool same(const struct model *m, const float *a, const float *b) {
    return a && b && memcmp(a, b, (size_t)(12 * m->hp.d[HD_VOCAB]) * sizeof *a) == 0;
}

// clang-format off
#define NONE {{NULL, GV_U8, 0, NULL}}
#define SCORE(type, v) {{"expert_gating_func", type, v, NULL}}
#define YARN_CTX "rope.scaling.original_context_length"
#define CHUNK "attention.chunk_length"
#define USED_MISSING "experts that each token uses, is missing or 0"
#define ROT "rope.dimension_count"
#define FACTOR "rope.scaling.attn_factor"
#define NO_SCORE SCORE(GV_COUNT, 0)
static const struct key_case cases[] = {
    {"glm4moe", SCORE(GV_U32, 3), "glm4moe.expert_gating_func is 3", NONE},
    {"glm4moe", SCORE(GV_U32, 9), "glm4moe.expert_gating_func is 9", NONE},
    {"glm4moe", SCORE(GV_U32, 2), NULL, NO_SCORE},
    {"deepseek-v3", SCORE(GV_U32, 4), "deepseek2.expert_gating_func is 4", NONE},
    {"deepseek-v3", SCORE(GV_U32, 1), NULL, NO_SCORE},
    {"lfm2moe", SCORE(GV_U32, 3), "lfm2moe.expert_gating_func is 3", NONE},
    {"glm-dsa", NO_SCORE, NULL, SCORE(GV_U32, 2)},
    /* soft caps and numbers of experts that are missing */
    {"gemma2", {{"final_logit_softcapping", GV_COUNT, 0, NULL}}, NULL, {{"final_logit_softcapping", GV_F32, 30, NULL}}},
    {"gemma2", {{"attn_logit_softcapping", GV_COUNT, 0, NULL}}, NULL, {{"attn_logit_softcapping", GV_F32, 50, NULL}}},
    {"gemma3n", {{"final_logit_softcapping", GV_COUNT, 0, NULL}}, NULL, {{"final_logit_softcapping", GV_F32, 30, NULL}}},
    {"gemma3", {{"final_logit_softcapping", GV_COUNT, 0, NULL}}, NULL, {{"final_logit_softcapping", GV_F32, 0, NULL}}},
    {"jamba", {{"expert_used_count", GV_COUNT, 0, NULL}}, USED_MISSING, NONE},
    {"jamba", {{"expert_used_count", GV_U32, 0, NULL}}, USED_MISSING, NONE},
    {"granitehybrid", {{"expert_used_count", GV_COUNT, 0, NULL}}, USED_MISSING, NONE},
    /* a block of the trunk is not an MTP block; files without the blocks may keep the key */
    {"hyv3", {{"nextn_predict_layers", GV_U32, 2, NULL}}, "nextn_predict_layers is 2, but block 3 lacks", NONE},
    {"qwen3next", {{"nextn_predict_layers", GV_U32, 1, NULL}}, "nextn_predict_layers is 1, but block 3 lacks", NONE},
    {"qwen3next", {{"nextn_predict_layers", GV_U32, 1, NULL}, {"block_count", GV_U32, 5, NULL}}, NULL, NONE},
    /* rotated dimensions that no table row reads; the head's number is in many files */
    {"olmo2", {{ROT, GV_U32, 8, NULL}}, "olmo2.rope.dimension_count is 8, but in olmo2 models all", NONE},
    {"olmo2", {{ROT, GV_U32, 16, NULL}}, NULL, NONE},
    {"gemma3", {{ROT, GV_U32, 4, NULL}}, "gemma3.rope.dimension_count is 4", NONE},
    {"exaonemoe", {{ROT, GV_U32, 4, NULL}}, "exaone-moe.rope.dimension_count is 4", NONE},
    {"jamba", {{ROT, GV_U32, 4, NULL}}, NULL, NONE},
    /* attn_factor outside longrope: only what is computed anyway */
    {"olmo2", {{FACTOR, GV_F32, 2, NULL}}, "olmo2.rope.scaling.attn_factor is 2", NONE},
    {"olmo2", {{FACTOR, GV_F32, 1, NULL}}, NULL, NONE},
    {"arcee", {{FACTOR, GV_F32, 1.1386, NULL}}, NULL, NONE},
    {"arcee", {{FACTOR, GV_F32, 1.3, NULL}}, "arcee.rope.scaling.attn_factor is 1.3", NONE},
    {"phi3long", {{FACTOR, GV_F32, -1, NULL}}, "phi3.rope.scaling.attn_factor is -1", NONE},
    /* a key of another type is not a missing key */
    {"glm4moe", {{"expert_weights_norm", GV_U32, 1, NULL}}, "glm4moe.expert_weights_norm\" is of type u32, expected bool", NONE},
    {"olmo2", {{"attention.causal", GV_U32, 0, NULL}}, "olmo2.attention.causal\" is of type u32", NONE},
    {"ministral3", {{YARN_CTX, GV_F32, 64, NULL}}, YARN_CTX "\" is of type f32, expected an integer", NONE},
    {"ministral3", {{YARN_CTX, GV_STR, 0, "64"}}, YARN_CTX "\" is of type str", NONE},
    {"ministral3", {{YARN_CTX, GV_U64, 64, NULL}}, NULL, {{YARN_CTX, GV_U32, 64, NULL}}},
    {"llama4", {{CHUNK, GV_STR, 0, "x"}}, CHUNK "\" is of type str", NONE},
    {"llama4", {{CHUNK, GV_F32, 10, NULL}}, CHUNK "\" is of type f32", NONE},
    {"llama4", {{CHUNK, GV_I32, -1, NULL}}, CHUNK "\" is -1", NONE},
    {"gptneox", {{"use_parallel_residual", GV_U32, 0, NULL}}, "use_parallel_residual\" is of type u32", NONE},
    {"granite4", {{"rope.scaling.finetuned", GV_I32, 0, NULL}}, "granite.rope.scaling.finetuned\" is of type i32", NONE},
    {"granitehybrid", {{"rope.scaling.finetuned", GV_I32, 0, NULL}}, "granitehybrid.rope.scaling.finetuned\" is of type i32", NONE},
    {"mistral4", {{"attention.temperature_length", GV_F32, 8, NULL}}, "temperature_length\" is of type f32", NONE},
    {"glm-dsa", {{"attention.indexer.types", GV_U32, 1, NULL}}, "indexer.types does not have an entry for each of", NONE},
};
// clang-format on

static void test_cases(void) {
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const struct key_case *c = &cases[i];
        char *dir = xasprintf("tests/golden/archs/%s", c->micro);
        struct model *m = golden_open(micro_folder(dir, NULL), tmp_path("m.gguf"));
        if (m) {
            float *now = changed(m, c->set, c->why);
            float *like = c->why ? NULL : c->like->key ? changed(m, c->like, NULL) : logits(m);
            if (!c->why && !same(m, now, like)) CHECK_FAIL("%s: case %zu differs", c->micro, i);
            free(now);
            free(like);
        }
        model_close(m);
        free(dir);
    }
}

/* Checks that a softmax router is not computed with sigmoids. */
static void test_softmax(void) {
    static const char *const micro[] = {"glm4moe",    "afmoe",          "laguna",     "mimo2",
                                        "minimax-m3", "nemotron_h_moe", "kimi-linear"};
    static const struct set softmax[N_SETS] = SCORE(GV_U32, 1);
    for (size_t i = 0; i < COUNT_OF(micro); i++) {
        char *dir = xasprintf("tests/golden/archs/%s", micro[i]);
        struct model *m = golden_open(micro_folder(dir, NULL), tmp_path("m.gguf"));
        float *before = logits(m), *now = m ? changed(m, softmax, NULL) : NULL;
        if (m && same(m, before, now)) CHECK_FAIL("%s: softmax changes nothing", micro[i]);
        free(before);
        free(now);
        model_close(m);
        free(dir);
    }
}

int main(void) {
    tmp_make();
    log_set_level(LOG_WARN);
    RUN(test_cases);
    RUN(test_softmax);
    tmp_remove();
    return check_done();
}
