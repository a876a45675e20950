// SPDX-License-Identifier: MIT
/* Gemma 4: conversion compared with llama.cpp's converter, logits and hidden states beyond the
 * sliding window with transformers, the E and dense forms with an implementation in NumPy
 * (tests/oracle/gemma4.py); parameter counts of published models; unsupported configs. */
#include "base/log.h"
#include "models/arch.h"
#include "quantize/recipe.h"
#include "tests/unit/golden.h"
#include "tests/unit/ref_compare.h"

static const char folder[] = "tests/golden/models/gemma4moe";
/* Both sides compute from the same weights, with sums in a different order; logits reach 20. */
static const double tol = 5e-4;

static void test_equals_reference(void) {
    ref_compare("gemma4moe", "gemma4", tmp_path("ref.gguf"));
}

static void logits(const char *src, const char *of, const char *name) {
    struct golden g;
    struct model *m = golden_open(src, tmp_path("m.gguf"));
    if (golden_load(&g, of) && m) {
        CHECK(g.n_ids > 3 * m->hp.d[HD_WINDOW]);
        golden_logits(m, &g, name, tol);
        golden_threads(m, &g);
    }
    golden_release(&g);
    model_close(m);
}
static void test_logits(void) {
    logits(folder, folder, "gemma4moe");
}
/* Tests per-layer embeddings, shared keys and values, and double-wide feed-forwards. */
static void test_e_form(void) {
    static const char src[] = "tests/golden/models/gemma4e";
    logits(golden_edited(src, folder, NULL), src, "gemma4e");
    /* blocks also read the tokens' per-layer embeddings, so no pass can begin at one */
    struct err e = {0};
    struct session *s = NULL;
    struct model *m = golden_open(golden_edited(src, folder, NULL), tmp_path("m.gguf"));
    const struct session_opts o = {.n_ctx = 16};
    if (!m) return;
    CHECK_OK(session_new(&s, m, &o, &e));
    CHECK(!session_can_begin(s, 1) && !session_can_begin(s, 2));
    session_free(s);
    model_close(m);
}
/* Tests a re-saved config (per_layer_config) without layer_types and experts, in which keys serve
 * as values. */
static void test_dense_form(void) {
    static const char d[] = "tests/golden/models/gemma4dense";
    logits(golden_edited(d, folder, NULL), d, "gemma4dense");
}

struct hidden_check {
    float *want[7];
    int64_t d;
    double diff[7];
};
static void see_hidden(void *ud, const struct session_shown *s) {
    struct hidden_check *c = ud;
    const int block = s->block;
    if (block + 1 > 5) return; /* the last one is compared after the final norm */
    for (int64_t t = 0; t < s->n_rows; t++)
        if ((s->pos + t) % 8 == 0)
            c->diff[block + 1] = fmax(
                c->diff[block + 1],
                golden_diff(s->x + t * c->d, c->want[block + 1] + (s->pos + t) / 8 * c->d, c->d));
}
static void test_hidden_states(void) {
    struct golden g;
    struct model *m = golden_open(folder, tmp_path("m.gguf"));
    if (golden_load(&g, folder) && m) {
        struct hidden_check c = {.d = m->hp.d[HD_EMBD]};
        struct session_opts o = {.n_ctx = g.n_ids, .isa = kern_isa_best()};
        for (int i = 0; i < 7; i++) {
            char key[16];
            int64_t n;
            snprintf(key, sizeof key, "hidden_%02d", i);
            c.want[i] = golden_floats(g.st, key, &n);
            CHECK_EQ_I64(n, 10 * c.d);
        }
        float *h = xcalloc((size_t)(g.n_ids * c.d), sizeof *h);
        free(golden_run(m, &o, g.ids, g.n_ids, golden_uneven, h, see_hidden, &c));
        for (int i = 0; i < 10; i++)
            c.diff[6] = fmax(c.diff[6], golden_diff(h + 8 * i * c.d, c.want[6] + i * c.d, c.d));
        for (int i = 0; i < 7; i++) {
            printf("%s%.3g", i ? " " : "hidden states: ", c.diff[i]);
            CHECK(c.diff[i] <= 1e-4);
            CHECK(c.diff[i] > 0 || i == 0);
            free(c.want[i]);
        }
        printf("\n");
        free(h);
    }
    golden_release(&g);
    model_close(m);
}

/* Checks that 8-bit weights and activations are close to f32, and give the same bits for any number
 * of threads. */
static void test_quantized(void) {
    struct err e = {0};
    struct convert_opts o = {.src = folder, .out = tmp_path("q.gguf"), .type = "q8_0"};
    struct convert_report r;
    struct model *m = NULL;
    struct golden g;
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(model_open(&m, tmp_path("q.gguf"), &e));
    if (golden_load(&g, folder) && m) {
        int64_t v = m->hp.d[HD_VOCAB];
        size_t bytes = (size_t)(g.n_ids * v) * sizeof(float);
        float *first = NULL;
        for (int threads = 1; threads <= 3; threads++) {
            struct pool *p = NULL;
            CHECK_OK(pool_new(&p, threads, &e));
            struct session_opts so = {
                .n_ctx = g.n_ids, .isa = kern_isa_best(), .act = ACT_Q8, .pool = p};
            float *l = golden_run(m, &so, g.ids, g.n_ids, golden_one, NULL, NULL, NULL);
            if (first) CHECK(memcmp(first, l, bytes) == 0);
            if (!first) first = xcalloc(1, bytes);
            memcpy(first, l, bytes);
            free(l);
            pool_free(p);
        }
        /* Rounding changes some choices of experts, so only the mean is bounded; logits have a
         * range of 40, and rounding only the weights moves them by 0.22. */
        double sum = 0;
        for (int64_t i = 0; i < g.n_logits; i++)
            sum += fabs((double)first[(2 * (i / v) + 1) * v + i % v] - (double)g.logits[i]);
        printf("8 bits: mean |logit difference| %.3g\n", sum / (double)g.n_logits);
        CHECK(sum / (double)g.n_logits < 0.5);
        free(first);
    }
    golden_release(&g);
    model_close(m);
}

/* Checks that full attention gives different results beyond the window, so that the test above can
 * fail. */
static void test_window_matters(void) {
    static const char *const edit[] = {"\"sliding_window\": 16", "\"sliding_window\": 4000", NULL};
    struct golden g;
    struct model *m = golden_open(golden_edited(folder, folder, edit), tmp_path("w.gguf"));
    if (golden_load(&g, folder) && m) {
        struct session_opts o = {.n_ctx = g.n_ids, .isa = kern_isa_best()};
        int64_t v = m->hp.d[HD_VOCAB];
        float *l = golden_run(m, &o, g.ids, g.n_ids, golden_all, NULL, NULL, NULL);
        CHECK(golden_diff(l + 15 * v, g.logits + 7 * v, v) <= tol); /* 16 keys: all are visible */
        CHECK(golden_diff(l + 17 * v, g.logits + 8 * v, v) > 100 * tol);
        free(l);
    }
    golden_release(&g);
    model_close(m);
}

/* ---- tables ---- */

static int64_t count(struct hparams *h, double *params) {
    struct err e;
    struct tensor_inst *t = NULL;
    int64_t n = 0, k = 0;
    const struct arch *a = arch_find("gemma4");
    *params = 0;
    CHECK_OK(a->derive(h, &e));
    CHECK_OK(arch_tensors(a, h, &t, &n, &e));
    for (int64_t i = 0; i < n; i++) {
        int block = -2;
        CHECK(arch_row_of(a, h, t[i].name, &block) == t[i].row && block == t[i].block);
        if (t[i].optional) continue;
        *params += (double)(t[i].ne[0] * t[i].ne[1]) * (double)t[i].ne[2];
        k++;
    }
    free(t);
    return k;
}

static struct hparams base(int64_t layers, int64_t embd, int64_t heads, int64_t kv_w, int64_t kv,
                           int64_t ff, int interval) {
    struct hparams h = {0};
    static const int64_t v[][2] = {{HD_ONE, 1},
                                   {HD_VOCAB, 262144},
                                   {HD_HEAD_DIM, 512},
                                   {HD_WINDOW, 1024},
                                   {HD_KEYS_VALUES, 1}};
    for (size_t i = 0; i < COUNT_OF(v); i++) h.d[v[i][0]] = v[i][1];
    h.d[HD_LAYERS] = layers;
    h.d[HD_EMBD] = embd;
    h.d[HD_HEADS] = heads;
    h.d_windowed[HD_HEAD_DIM] = 256;
    h.d_windowed[HD_KV_HEADS] = kv_w;
    h.d[HD_KV_HEADS] = kv;
    h.d[HD_FF] = ff;
    h.tied = true;
    for (int64_t i = 0; i < layers; i++)
        *layers_own(&h, HD_WINDOW, i) = (i + 1) % interval != 0 ? 1024 : 0;
    return h;
}

static void test_counts_of_published_models(void) {
    double params;
    struct hparams h = base(30, 2816, 16, 8, 2, 2112, 6);
    h.d[HD_EXPERTS] = 128;
    h.d[HD_EXPERTS_USED] = 8;
    h.d[HD_FF_EXP] = 704;
    CHECK_EQ_I64(count(&h, &params), 658); /* 25*22 + 5*21 + 3 */
    CHECK(params > 24.5e9 && params < 26.5e9);
    h = base(60, 5376, 32, 16, 4, 21504, 6);
    CHECK_EQ_I64(count(&h, &params), 50 * 14 + 10 * 13 + 3);
    CHECK(params > 30e9 && params < 31.5e9);
    h = base(35, 1536, 8, 1, 1, 6144, 5); /* E2B */
    h.d[HD_KEYS_VALUES] = 0;
    h.d[HD_KV_SHARED] = 20;
    h.d[HD_PLE] = 256;
    for (int64_t i = 0; i < 35; i++) *layers_own(&h, HD_FF, i) = (i < 15 ? 1 : 2) * 6144;
    CHECK_EQ_I64(count(&h, &params), 35 * 14 + 15 * 3 + 6);
    CHECK(params > 4.4e9 && params < 5.4e9); /* 2.3 G of them per-layer embeddings */
}

/* Tests Q4_K_M on the tensor list of 26B-A4B: rows of 704 and 2112 are not multiples of 256 and use
 * fallback types; the tied embedding gets the head's type; tensors that the loader reads as F32
 * stay F32. */
static void test_recipe(void) {
    struct err e;
    struct hparams h = base(30, 2816, 16, 8, 2, 2112, 6);
    h.d[HD_EXPERTS] = 128;
    h.d[HD_EXPERTS_USED] = 8;
    h.d[HD_FF_EXP] = 704;
    const struct arch *a = arch_find("gemma4");
    struct tensor_inst *t = NULL;
    int64_t n = 0, n_quant = 0;
    CHECK_OK(a->derive(&h, &e));
    CHECK_OK(arch_tensors(a, &h, &t, &n, &e));
    struct recipe_model m = {
        .arch = a, .n_blocks = 30, .heads = 16, .kv_heads = 8, .experts = 128, .tied = true};
    struct recipe_item *it = xcalloc((size_t)n, sizeof *it);
    for (int64_t i = 0; i < n; i++) {
        it[i] = (struct recipe_item){.name = t[i].name, .from = QT_BF16};
        memcpy(it[i].ne, t[i].ne, sizeof it[i].ne);
    }
    recipe_roles(&m, it, n);
    recipe_apply("Q4_K_M", QT_F32, &m, it, n);
    for (int64_t i = 0; i < n; i++) {
        const char *name = it[i].name;
        bool odd = strstr(name, "ffn_down.weight") || strstr(name, "ffn_down_exps.weight");
        n_quant += it[i].quant;
        CHECK(it[i].fallback == odd);
        if (odd && it[i].type != QT_Q5_0 && it[i].type != QT_Q8_0)
            CHECK_FAIL("%s is %s", name, qtype_name(it[i].type));
        if (strstr(name, "gate_up_exps")) CHECK(it[i].type == QT_Q4_K);
        if (strcmp(name, "token_embd.weight") == 0) CHECK(it[i].type == QT_Q6_K);
        if (t[i].row->flags & TR_F32) CHECK(!it[i].quant);
    }
    CHECK_EQ_I64(n_quant, 25 * 9 + 5 * 8 + 1); /* q k v o, gate up down, two of the experts */
    free(it);
    free(t);
}

static void test_roles(void) {
    static const struct {
        const char *name;
        enum role role;
        bool f32;
    } want[] = {
        {"blk.0.attn_q.weight", ROLE_ATTN_Q, false},
        {"blk.3.ffn_down.weight", ROLE_FFN_DOWN, false},
        {"blk.3.ffn_gate_up_exps.weight", ROLE_EXP_GATE_UP, false},
        {"blk.3.ffn_down_exps.weight", ROLE_EXP_DOWN, false},
        {"blk.3.ffn_down_exps.scale", ROLE_OTHER, true},
        {"blk.3.ffn_gate_inp.scale", ROLE_OTHER, true},
        {"blk.3.ffn_gate_inp.weight", ROLE_OTHER, true},
        {"blk.3.layer_output_scale.weight", ROLE_OTHER, true},
        {"rope_freqs.weight", ROLE_OTHER, true},
        {"token_embd.weight", ROLE_TOKEN_EMBD, false},
        {"per_layer_token_embd.weight", ROLE_PLE_EMBD, false},
    };
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        const struct tensor_row *r = arch_row(arch_find("gemma4"), want[i].name, NULL);
        CHECK(r && r->role == want[i].role && ((r->flags & TR_F32) != 0) == want[i].f32);
    }
}

/* ---- what is refused ---- */

static void refused_of(const char *of, const char *from, const char *to, const char *text) {
    const char *edit[] = {from, to, NULL};
    struct err e = {0};
    struct convert_opts o = {.src = golden_edited(of, folder, edit), .out = tmp_path("bad.gguf")};
    struct convert_report r;
    CHECK_ERR(convert_run(&o, &r, &e), ERR_DATA, text);
}
static void refused(const char *from, const char *to, const char *text) {
    refused_of(folder, from, to, text);
}
static void test_refuses_bad_configs(void) {
    static const char e[] = "tests/golden/models/gemma4e", d[] = "tests/golden/models/gemma4dense";
    refused("\"attention_bias\": false", "\"attention_bias\": true", "attention_bias");
    refused("gelu_pytorch_tanh", "relu", "hidden_activation");
    refused("\"use_bidirectional_attention\": null", "\"use_bidirectional_attention\": \"all\"",
            "use_bidirectional_attention is \"all\"");
    refused("\"proportional\"", "\"yarn\"", "yarn");
    refused("\"partial_rotary_factor\": 0.25", "\"partial_rotary_factor\": 7", "partial_rotary");
    refused("\"sliding_attention\",", "\"sideways_attention\",", "layer_types[0]");
    refused("\"sliding_attention\",", "", "layer_types has 5");
    refused("\"num_experts\": 6", "\"num_experts\": 7", "asks for");
    refused("\"num_experts\": 6", "\"num_experts\": 1", "experts are used");
    refused("\"moe_intermediate_size\": 64", "\"moe_intermediate_size\": null", "how wide");
    refused("\"enable_moe_block\": true", "\"enable_moe_block\": false", "not part of");
    refused("\"global_head_dim\": 64", "\"global_head_dim\": 63", "pairs");
    refused("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "cannot share");
    refused("\"num_kv_shared_layers\": 0", "\"num_kv_shared_layers\": 6", "of 6 layers");
    refused("\"num_kv_shared_layers\": 0", "\"num_kv_shared_layers\": 4", "no layer of its kind");
    refused("\"attention_k_eq_v\": true", "\"attention_k_eq_v\": false", "k_proj.weight has shape");
    refused_of(e, "\"hidden_size_per_layer_input\": 8", "\"hidden_size_per_layer_input\": 0",
               "not part of");
    refused_of(e, "\"use_double_wide_mlp\": true", "\"use_double_wide_mlp\": false", "asks for");
    refused_of(d, "\"head_dim\": 32", "\"head_dim\": 16", "same number in all layers");
}

/* Replaces a key of the converted file and checks that it is refused. */
static void file_refused(const char *key, const void *v, uint64_t n, const char *text) {
    struct err e = {0};
    struct gguf *g = NULL;
    struct model *m = NULL;
    CHECK_OK(gguf_open(&g, tmp_path("m.gguf"), 0, &e));
    if (!g) return;
    struct gguf_w *w = gguf_w_new();
    for (int64_t k = 0; k < gguf_n_kv(g); k++)
        if (strcmp(gguf_kv_at(g, k)->key, key) != 0) gguf_w_copy_kv(w, gguf_kv_at(g, k));
    if (v) gguf_w_arr(w, key, GV_I32, v, n);
    const struct gguf_tensor *t = gguf_find_tensor(g, "token_embd.weight");
    CHECK_OK(gguf_w_tensor(w, t->name, t->type, t->n_dims, t->ne, &e));
    CHECK_OK(gguf_w_begin(w, tmp_path("x.gguf"), true, &e));
    CHECK_OK(gguf_w_data(w, t->data, t->n_bytes, &e));
    CHECK_OK(gguf_w_commit(w, &e));
    CHECK_ERR(model_open(&m, tmp_path("x.gguf"), &e), ERR_DATA, text);
    gguf_w_free(w);
    gguf_close(g);
}
static void test_refuses_bad_files(void) {
    static const int32_t six[6] = {2, 2, 1, 2, 1, 1}, neg[6] = {2, 2, -1, 2, 2, 1},
                         huge[6] = {3, 3, 3, 3, 3, 3};
    model_close(golden_open(folder, tmp_path("m.gguf")));
    file_refused("gemma4.attention.head_count_kv", NULL, 0, "head_count_kv is missing");
    file_refused("gemma4.attention.head_count_kv", neg, 6, "out of range");
    file_refused("gemma4.attention.head_count_kv", six, 5, "each of 6 layers");
    file_refused("gemma4.attention.head_count_kv", huge, 6, "cannot share");
    file_refused("gemma4.feed_forward_length", six, 5, "each of 6 layers");
    file_refused("gemma4.attention.sliding_window_pattern", NULL, 0, "sliding_window_pattern");
    file_refused("gemma4.attention.sliding_window_pattern", six, 3, "each of 6 layers");
    file_refused("gemma4.attention.sliding_window", NULL, 0, "sliding_window is missing");
}

int main(void) {
    tmp_make();
    log_set_level(LOG_WARN);
    RUN(test_equals_reference);
    RUN(test_logits);
    RUN(test_e_form);
    RUN(test_dense_form);
    RUN(test_hidden_states);
    RUN(test_quantized);
    RUN(test_window_matters);
    RUN(test_counts_of_published_models);
    RUN(test_recipe);
    RUN(test_roles);
    RUN(test_refuses_bad_configs);
    RUN(test_refuses_bad_files);
    tmp_remove();
    return check_done();
}
