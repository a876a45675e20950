// SPDX-License-Identifier: MIT
/* Mistral Small under the names `llama` and `mistral3`: conversion compared with llama.cpp's
 * converter, logits with transformers; the parameter count of the published model; unsupported
 * configs. */
#include "models/arch.h"
#include "tests/unit/golden.h"
#include "tests/unit/ref_compare.h"

static const char folder[] = "tests/golden/models/mistral";
/* Both sides compute in f32 from the same weights, with sums in a different order. */
static const double tol = 5e-4;

static void test_equals_reference(void) {
    ref_compare("mistral", "llama", tmp_path("ref.gguf"));
}

static void test_logits(void) {
    struct golden g;
    struct model *m = golden_open(folder, tmp_path("m.gguf"));
    if (golden_load(&g, folder) && m) {
        golden_logits(m, &g, "mistral", tol);
        golden_threads(m, &g);
    }
    golden_release(&g);
    model_close(m);
}

/* Tests the multimodal class: numbers in text_config, the same tensors under the other name. */
static void test_multimodal_class(void) {
    static const char *const edit[] = {
        "\"MistralForCausalLM\"\n  ],",
        "\"Mistral3ForConditionalGeneration\"], \"model_type\": \"mistral3\", \"text_config\": {",
        "\"vocab_size\": 1024",
        "\"vocab_size\": 1024}, \"vision_config\": {}",
        NULL,
    };
    struct err e = {0};
    struct gguf *a = NULL, *b = NULL;
    struct golden g;
    struct model *m = golden_open(golden_edited(folder, folder, edit), tmp_path("m3.gguf"));
    model_close(golden_open(folder, tmp_path("m.gguf")));
    CHECK_OK(gguf_open(&a, tmp_path("m.gguf"), 0, &e));
    CHECK_OK(gguf_open(&b, tmp_path("m3.gguf"), 0, &e));
    if (a && b && m) {
        CHECK_EQ_STR(m->arch->name, "mistral3");
        CHECK_EQ_I64(gguf_n_tensors(a), gguf_n_tensors(b));
        for (int64_t i = 0; i < gguf_n_tensors(a); i++) {
            const struct gguf_tensor *x = gguf_tensor_at(a, i), *y = gguf_find_tensor(b, x->name);
            CHECK(y && x->n_bytes == y->n_bytes && memcmp(x->data, y->data, x->n_bytes) == 0);
        }
        for (int64_t i = 0; i < gguf_n_kv(a); i++) { /* llama.x becomes mistral3.x */
            const char *key = gguf_kv_at(a, i)->key;
            char *other = strncmp(key, "llama.", 6) == 0 ? xasprintf("mistral3.%s", key + 6)
                                                         : xasprintf("%s", key);
            if (!gguf_find(b, other)) CHECK_FAIL("no key %s", other);
            free(other);
        }
        if (golden_load(&g, folder)) {
            struct session_opts o = {.n_ctx = g.n_ids, .isa = kern_isa_best()};
            float *l = golden_run(m, &o, g.ids, g.n_ids, golden_all, NULL, NULL, NULL);
            CHECK(golden_diff(l + 1024, g.logits, 1024) <= tol); /* position 1 */
            free(l);
        }
        golden_release(&g);
    }
    gguf_close(a);
    gguf_close(b);
    model_close(m);
}

/* Tests YaRN and Llama 3's scaling from config.json through the file to logits, compared with an
 * implementation in NumPy. */
static void yarn(const char *rope, const char *which) {
    const char *edit[] = {"\"rope_type\": \"default\"", rope, NULL};
    struct err e = {0};
    struct golden g;
    struct st *st = NULL;
    struct model *m = golden_open(golden_edited(folder, folder, edit), tmp_path("y.gguf"));
    CHECK_OK(st_open(&st, "tests/golden/models/mistral/yarn.safetensors", &e));
    if (golden_load(&g, folder) && m && st) {
        static const int64_t pos[4] = {49, 57, 65, 73};
        int64_t n, v = m->hp.d[HD_VOCAB];
        float *want = golden_floats(st, which, &n);
        CHECK_EQ_I64(n, 4 * v);
        for (int isa = KERN_REF; isa <= (int)kern_isa_best(); isa++)
            for (int b = 0; b < 3; b++) {
                struct session_opts o = {.n_ctx = g.n_ids, .isa = (enum kern_isa)isa};
                float *l =
                    golden_run(m, &o, g.ids, g.n_ids, golden_batching[b].pieces, NULL, NULL, NULL);
                double diff = 0, plain = 0;
                for (int64_t i = 0; i < 4 && n == 4 * v; i++) {
                    diff = fmax(diff, golden_diff(l + pos[i] * v, want + i * v, v));
                    plain = fmax(plain, golden_diff(l + pos[i] * v, g.logits + pos[i] / 2 * v, v));
                }
                CHECK(diff <= 1e-4);
                CHECK(plain > 0.05); /* the scaling has an effect */
                if (!isa && !b)
                    printf("yarn %s: %.3g, against plain rope %.3g\n", which, diff, plain);
                free(l);
            }
        free(want);
    }
    st_close(st);
    golden_release(&g);
    model_close(m);
}
static void test_yarn(void) {
    yarn("\"rope_type\": \"yarn\", \"factor\": 4.0",
         "a"); /* original context: 4096, from the config */
    yarn("\"type\": \"yarn\", \"factor\": 8, \"original_max_position_embeddings\": 1024, "
         "\"attention_factor\": 1.5, \"beta_fast\": 16, \"beta_slow\": 2.0",
         "b");
}

/* Tests Llama 3.x: the other class, with RoPE divisors as a tensor. */
static void test_llama3(void) {
    static const char scaling[] =
        "\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, "
        "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 512";
    const char *edit[] = {"\"MistralForCausalLM\"", "\"LlamaForCausalLM\"",
                          "\"rope_type\": \"default\"", scaling, NULL};
    struct err e;
    struct gguf *g = NULL;
    yarn(scaling, "l");
    struct model *m = golden_open(golden_edited(folder, folder, edit), tmp_path("l3.gguf"));
    CHECK(m && strcmp(m->arch->name, "llama") == 0);
    model_close(m);
    CHECK_OK(gguf_open(&g, tmp_path("l3.gguf"), 0, &e));
    const struct gguf_tensor *t = g ? gguf_find_tensor(g, "rope_freqs.weight") : NULL;
    CHECK(t && t->type == QT_F32 && t->ne[0] == 16 && t->n_dims == 1);
    if (t) { /* in 512 tokens, pairs 0 to 2 make 81, 22.3 and 6.1 turns, pair 3 1.67, pair 4 0.46
              */
        const float *f = (const float *)(const void *)t->data;
        for (int i = 0; i < 3; i++) CHECK(f[i] == 1.0f);
        CHECK(f[3] > 1 && f[3] < 8);
        for (int i = 4; i < 16; i++) CHECK(f[i] == 8.0f);
    }
    gguf_close(g);
}

static void test_counts_of_24b(void) {
    struct err e;
    struct tensor_inst *t = NULL;
    int64_t n = 0, params = 0;
    const struct arch *a = arch_find("mistral3");
    struct hparams h = {0};
    static const int64_t v[][2] = {{HD_ONE, 1},        {HD_VOCAB, 131072}, {HD_LAYERS, 40},
                                   {HD_EMBD, 5120},    {HD_HEADS, 32},     {HD_KV_HEADS, 8},
                                   {HD_HEAD_DIM, 128}, {HD_FF, 32768}};
    for (size_t i = 0; i < COUNT_OF(v); i++) h.d[v[i][0]] = v[i][1];
    CHECK_OK(a->derive(&h, &e));
    CHECK_OK(arch_tensors(a, &h, &t, &n, &e));
    CHECK_EQ_I64(n, 363); /* 40 * 9 + 3 */
    for (int64_t i = 0; i < n; i++) params += t[i].ne[0] * t[i].ne[1] * t[i].ne[2];
    CHECK((double)params > 23.0e9 && (double)params < 24.5e9);
    CHECK_EQ_I64(h.d[HD_ATTN_OUT], 4096); /* not the embedding's 5120 */
    free(t);
}

static void refused(const char *from, const char *to, const char *text) {
    const char *edit[] = {from, to, NULL};
    struct err e = {0};
    struct convert_opts o = {.src = golden_edited(folder, folder, edit),
                             .out = tmp_path("bad.gguf")};
    struct convert_report r;
    CHECK_ERR(convert_run(&o, &r, &e), ERR_DATA, text);
}

static void test_refuses_other_models(void) {
    refused("\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"", "hidden_act");
    refused("\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"", "yarn");
    refused("\"rope_type\": \"default\"", "\"rope_type\": \"yarn\", \"factor\": 0.5", "factor");
    refused("\"rope_type\": \"default\"",
            "\"rope_type\": \"yarn\", \"factor\": 4, \"truncate\": false", "truncate");
    refused("\"rope_type\": \"default\"", "\"rope_type\": \"llama3\", \"factor\": 8",
            "low_freq_factor");
    refused("\"rope_type\": \"default\"", "\"rope_type\": \"longrope\"", "longrope");
    refused("\"use_cache\": true", "\"text_config\": {\"model_type\": \"mistral4\"}", "mistral4");
    refused("\"head_dim\": 32", "\"head_dim\": 31", "rotated");
    refused("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4", "asks for");
}

/* Tests keys of other models that share the name `llama`. */
static void test_refuses_other_files(void) {
    static const char *const key[] = {"llama.expert_count", "llama.attention.temperature_scale",
                                      "llama.rope.scaling.type"};
    struct err e = {0};
    struct gguf *g = NULL;
    model_close(golden_open(folder, tmp_path("m.gguf")));
    CHECK_OK(gguf_open(&g, tmp_path("m.gguf"), 0, &e));
    for (size_t i = 0; g && i < COUNT_OF(key); i++) {
        struct gguf_w *w = gguf_w_new();
        const struct gguf_tensor *t = gguf_find_tensor(g, "token_embd.weight");
        struct model *m = NULL;
        for (int64_t k = 0; k < gguf_n_kv(g); k++) gguf_w_copy_kv(w, gguf_kv_at(g, k));
        if (i == 2)
            gguf_w_str(w, key[i], "longrope");
        else
            gguf_w_u32(w, key[i], 8);
        CHECK_OK(gguf_w_tensor(w, t->name, t->type, t->n_dims, t->ne, &e));
        CHECK_OK(gguf_w_begin(w, tmp_path("x.gguf"), true, &e));
        CHECK_OK(gguf_w_data(w, t->data, t->n_bytes, &e));
        CHECK_OK(gguf_w_commit(w, &e));
        CHECK_ERR(model_open(&m, tmp_path("x.gguf"), &e), ERR_DATA, i ? key[i] : "expert_count");
        gguf_w_free(w);
    }
    gguf_close(g);
}

int main(void) {
    tmp_make();
    RUN(test_equals_reference);
    RUN(test_logits);
    RUN(test_multimodal_class);
    RUN(test_yarn);
    RUN(test_llama3);
    RUN(test_counts_of_24b);
    RUN(test_refuses_other_models);
    RUN(test_refuses_other_files);
    tmp_remove();
    return check_done();
}
