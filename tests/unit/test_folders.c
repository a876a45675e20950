// SPDX-License-Identifier: MIT
/* tests/unit/test_folders.c - folders as people publish them: the micro checkpoints of
 * tests/golden/archs, whose logits test_archs.c compares with those of transformers, with other
 * tensor names, classes and layouts. Each must give the bytes of the plain folder. */
#include <unistd.h>

#include "convert/convert.h"
#include "base/log.h"
#include "base/str.h"
#include "base/progress.h"
#include "tests/check.h"
#include "tests/unit/micro.h"

/* Writes a tensor under other names or in other parts. */
typedef void (*edit_fn)(struct st_build *b, const struct st_tensor *t);

static edit_fn editing, replacing;
static int replace(struct st_build *b, const struct st_tensor *t) {
    if (replacing) replacing(b, t);
    return replacing != NULL;
}

/* Creates a folder with a micro checkpoint or a model of tests/golden/models. */
static const char *folder(const char *arch, const char *const *edit, edit_fn fn) {
    char *dir = xasprintf("tests/golden/archs/%s", arch);
    const bool micro = io_is_dir(dir);
    if (!micro) {
        free(dir);
        dir = xasprintf("tests/golden/models/%s", arch);
    }
    const char *made = micro ? micro_folder(dir, edit) : golden_edited(dir, dir, edit);
    char *path = xasprintf("%s/model.safetensors", made);
    replacing = fn;
    st_rewrite(path, replace);
    free(path);
    free(dir);
    return made;
}

static int convert(const char *dir, const char *out, struct err *e) {
    struct convert_report r;
    const struct convert_opts o = {.src = dir, .out = tmp_path(out), .overwrite = true};
    return convert_run(&o, &r, e);
}

static void same_files(const char *what) {
    char *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    struct err e;
    CHECK_OK(io_read_file(&a, &n, tmp_path("plain.gguf"), 1 << 26, &e));
    CHECK_OK(io_read_file(&b, &m, tmp_path("other.gguf"), 1 << 26, &e));
    if (!a || !b || n != m || memcmp(a, b, n) != 0) CHECK_FAIL("%s: another file", what);
    free(a);
    free(b);
}

/* Converts a folder unchanged, or with the edits `was` in its config, and the changed one, and
 * compares the files. */
static void check_pair(const char *arch, const char *const *was, const char *const *edit,
                       edit_fn fn, const char *what) {
    struct err e = {0};
    unlink(tmp_path("other.gguf"));
    CHECK_OK(convert(folder(arch, was, NULL), "plain.gguf", &e));
    if (convert(folder(arch, edit, fn), "other.gguf", &e)) {
        CHECK_FAIL("%s, %s: %s", arch, what, e.msg);
        return;
    }
    same_files(what);
}

static void check_same(const char *arch, const char *const *edit, edit_fn fn, const char *what) {
    check_pair(arch, NULL, edit, fn, what);
}

/* ---- prefixes ---- */

static const char *cut, *put; /* Prefixes of names and their replacements. */
static void exchange(struct st_build *b, const struct st_tensor *t) {
    const size_t n = strlen(cut);
    const bool has = strncmp(t->name, cut, n) == 0;
    char *name = xasprintf("%s%s", has ? put : "", t->name + (has ? n : 0));
    st_copy(b, name, t);
    free(name);
}
/* torch.compile of single layers. */
static void compiled_layers(struct st_build *b, const struct st_tensor *t) {
    const char *at = strstr(t->name, ".layers.");
    const char *end = at ? strchr(at + strlen(".layers."), '.') : NULL;
    char *name = end ? xasprintf("%.*s._orig_mod%s", (int)(end - t->name), t->name, end)
                     : xasprintf("%s", t->name);
    st_copy(b, name, t);
    free(name);
}

static void test_prefixes(void) {
    static const struct {
        const char *arch, *cut, *put;
    } c[] = {
        {"llamabias", "model.", ""},
        {"llamabias", "", "_orig_mod."},
        {"llamabias", "", "module."},
        {"llamabias", "", "module._orig_mod."},
        {"llamabias", "", "_fsdp_wrapped_module._orig_mod."},
        {"llamabias", "", "base_model.model."},
        {"llamabias", "", "language_model."},
        {"llamabias", "", "llm."},
        {"llamabias", "", "base_model.model.thinker."},
        {"llamabias", "model.", "model.language_model."},
        {"llamabias", "model.", "model.language_model.model."},
        {"llamabias", "model.", "language_model.model."},
        {"llamabias", "model.", "model.text_model."},
        {"llamabias", "model.", "transformer."},
        {"olmoe", "model.", ""},
        {"olmoe", "", "model."},
        {"gptneox", "gpt_neox.", ""},
        {"falcon", "transformer.", ""},
        {"gpt2", "", "transformer."},
        {"gpt2", "", "_orig_mod.transformer."},
        {"mamba", "backbone.", ""},
        {"internlm2", "model.", ""},
        {"glm4moe", "model.", ""},
        {"qwen3vl", "model.language_model.", "language_model.model."},
        {"qwen3vl", "model.language_model.", "model."},
        {"gemma3n", "model.language_model.", ""},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        cut = c[i].cut;
        put = c[i].put;
        char *what = xasprintf("\"%s\" for \"%s\"", put, cut);
        check_same(c[i].arch, NULL, exchange, what);
        free(what);
    }
    check_same("olmoe", NULL, compiled_layers, "_orig_mod inside");
}

/* Adds a prefix to only some tensors, and one to only the head. */
static void some_doubled(struct st_build *b, const struct st_tensor *t) {
    const bool is = strstr(t->name, "embed_tokens") || strstr(t->name, ".layers.1.");
    char *name = xasprintf("%s%s", is ? "base_model.model." : "", t->name);
    st_copy(b, name, t);
    free(name);
}
static void head_inside(struct st_build *b, const struct st_tensor *t) {
    const bool is = strcmp(t->name, "lm_head.weight") == 0;
    st_copy(b, is ? "model.language_model.lm_head.weight" : t->name, t);
}

/* Leftovers of tools and older classes next to the weights: recomputed tables, zero biases. */
static void with_buffers(struct st_build *b, const struct st_tensor *t) {
    static const float zero[64];
    static const int64_t one[] = {16}, mask[] = {1, 1, 4, 4};
    st_copy(b, t->name, t);
    if (strcmp(t->name, "model.norm.weight") != 0) return;
    st_add(b, "rotary_emb.inv_freq", "F32", 1, one, zero, 64);
    st_add(b, "model.layers.0.self_attn.rotary_emb.cos_cached", "F32", 1, one, zero, 64);
    st_add(b, "model.rotary_emb.original_inv_freq", "F32", 1, one, zero, 64);
    st_add(b, "model.position_ids", "I32", 1, one, zero, 64);
    st_add(b, "model.layers.0.self_attn.bias", "F32", 4, mask, zero, 64);
    st_add(b, "model.layers.0.self_attn.masked_bias", "F32", 1, one, zero, 64);
    st_add(b, "model.layers.0.mlp.router.bias", "F32", 1, one, zero, 64);
}
/* Writes the same numbers as F64, which is read as F32. */
static void as_double(struct st_build *b, const struct st_tensor *t) {
    double *v = xcalloc((size_t)t->n_elems, sizeof *v);
    float x;
    struct err e;
    for (int64_t i = 0; i < t->n_elems; i++) {
        CHECK_OK(st_to_f32(t, i, 1, &x, &e));
        v[i] = (double)x;
    }
    st_add(b, t->name, "F64", t->n_dims, t->shape, v, (size_t)t->n_elems * sizeof *v);
    free(v);
}
static void as_float(struct st_build *b, const struct st_tensor *t) {
    float *v = xcalloc((size_t)t->n_elems, sizeof *v);
    struct err e;
    CHECK_OK(st_to_f32(t, 0, t->n_elems, v, &e));
    st_add(b, t->name, "F32", t->n_dims, t->shape, v, (size_t)t->n_elems * sizeof *v);
    free(v);
}

/* Writes files like MLX: plain weights and quantized ones. */
static void as_mlx(struct st_build *b, const struct st_tensor *t) {
    if (!b->header.len) buf_str(&b->header, "{\"__metadata__\":{\"format\":\"mlx\"}");
    st_copy(b, t->name, t);
}
static void of_mlx_lm(struct st_build *b, const struct st_tensor *t) {
    static const int64_t shape[] = {2};
    as_mlx(b, t);
    if (strcmp(t->name, "model.norm.weight") == 0)
        st_add(b, "model.layers.0.mlp.up_proj.scales", "U32", 1, shape, "12345678", 8);
}

static void test_left_over(void) {
    static const char *const section[] = {
        "\"model_type\"",
        "\"quantization_config\": {\"quant_method\": \"torchao\"}, \"model_type\"", NULL};
    static const char *const empty[] = {"\"model_type\"",
                                        "\"quantization_config\": {}, \"model_type\"", NULL};
    struct err e = {0};
    check_same("olmoe", NULL, some_doubled, "a prefix of some tensors");
    check_same("olmoe", NULL, head_inside, "a prefix of the head");
    check_same("olmoe", NULL, with_buffers, "buffers");
    check_same("olmoe", section, NULL, "a section of quantization over plain weights");
    check_same("olmoe", empty, NULL, "an empty section");
    check_same("llamabias", NULL, as_mlx, "written for MLX");
    CHECK_ERR(convert(folder("olmoe", NULL, as_mlx), "other.gguf", &e), ERR_DATA,
              "written for MLX, which transforms weights such as blk.0.ffn_");
    CHECK_ERR(convert(folder("llamabias", NULL, of_mlx_lm), "other.gguf", &e), ERR_DATA,
              "mlx_lm.convert --dequantize");
    CHECK_OK(convert(folder("olmoe", NULL, as_float), "plain.gguf", &e));
    CHECK_OK(convert(folder("olmoe", NULL, as_double), "other.gguf", &e));
    same_files("F64");
}

/* Tests names that no rule maps, which the error lists; adapters have a separate message. */
static void some_layers(struct st_build *b, const struct st_tensor *t) {
    char *name = xasprintf("%s%s", strstr(t->name, ".layers.1.") ? "odd." : "", t->name);
    st_copy(b, name, t);
    free(name);
}
static void adapter(struct st_build *b, const struct st_tensor *t) {
    const char *at = strstr(t->name, ".q_proj.weight");
    char *name = xasprintf("base_model.model.%.*s%s", at ? (int)(at - t->name) : 1000, t->name,
                           at ? ".q_proj.base_layer.weight" : "");
    st_copy(b, name, t);
    if (!editing && at) st_copy(b, "base_model.model.x.lora_A.default.weight", t);
    if (at) editing = adapter;
    free(name);
}
/* Writes the last norm twice, once under a wrapper's name, with equal or different values. */
static void twice(struct st_build *b, const struct st_tensor *t) {
    st_copy(b, t->name, t);
    if (strcmp(t->name, "model.norm.weight") == 0) st_copy(b, "module.model.norm.weight", t);
}
static void differs(struct st_build *b, const struct st_tensor *t) {
    if (strstr(t->name, "layers.0.input_layernorm")) st_copy(b, "module.model.norm.weight", t);
    st_copy(b, t->name, t);
}

static void test_prefix_errors(void) {
    struct err e = {0};
    CHECK_ERR(convert(folder("olmoe", NULL, some_layers), "other.gguf", &e), ERR_DATA,
              "but odd.model.layers.1.");
    editing = NULL;
    CHECK_ERR(convert(folder("olmoe", NULL, adapter), "other.gguf", &e), ERR_DATA,
              "merge_and_unload");
    editing = adapter;
    check_same("olmoe", NULL, adapter, "base layers without an adapter");
    check_same("olmoe", NULL, twice, "a tensor that occurs twice");
    CHECK_ERR(convert(folder("olmoe", NULL, differs), "other.gguf", &e), ERR_DATA,
              "denote the same weight but");
}

/* ---- indexers ---- */

static const char *left_out; /* end of a tensor's name */
static void without(struct st_build *b, const struct st_tensor *t) {
    if (!str_ends(t->name, left_out)) st_copy(b, t->name, t);
}
/* Checks that a folder without one tensor of one layer's indexer is refused. */
static void test_indexers(void) {
    static const char *const tensor[] = {"layers.1.self_attn.indexer.wk.weight",
                                         "layers.2.self_attn.indexer.wq_b.weight",
                                         "layers.0.self_attn.indexer.k_norm.bias"};
    struct err e;
    for (size_t i = 0; i < COUNT_OF(tensor); i++) {
        left_out = tensor[i];
        CHECK_ERR(convert(folder("deepseek-v32", NULL, without), "other.gguf", &e), ERR_DATA,
                  tensor[i]);
    }
}

/* ---- classes ---- */

static void test_classes(void) {
    static const struct {
        const char *arch, *from, *to;
    } c[] = {
        {"llamabias", "LlamaForCausalLM", "LlamaModel"},
        {"llamabias", "LlamaForCausalLM", "LLaMAForCausalLM"},
        {"llamabias", "LlamaForCausalLM", "IQuestCoderForCausalLM"},
        {"llamabias", "LlamaForCausalLM", "MistralModel"},
        {"llamabias", "\"silu\"", "\"swish\""},
        {"mistralwin", "MistralForCausalLM", "mistralforcausallm"},
        {"lfm2", "Lfm2ForCausalLM", "LFM2ForCausalLM"},
        {"lfm2", "Lfm2ForCausalLM", "Lfm2Model"},
        {"kimi-linear", "KimiLinearForCausalLM", "KimiLinearModel"},
        {"exaonemoe", "ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM"},
        {"mimo2", "MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"},
        {"exaone4", "Exaone4ForCausalLM", "Exaone4_5_ForConditionalGeneration"},
        {"gpt2", "GPT2LMHeadModel", "GPT2Model"},
        {"gemma3", "Gemma3ForCausalLM", "Gemma3TextModel"},
        {"qwen3vl", "Qwen3VLForConditionalGeneration", "Qwen3VLModel"},
        /* By model_type, as transformers does for models without custom code. */
        {"llamabias", "LlamaForCausalLM", "NobodyKnowsForCausalLM"},
        {"ernie45moe", "Ernie4_5_MoeForCausalLM", "NobodyKnowsForCausalLM"},
        {"gemma3", "Gemma3ForCausalLM", "NobodyKnowsForCausalLM"},
        {"qwen3vlmoe", "Qwen3VLMoeForConditionalGeneration", "NobodyKnowsForCausalLM"},
        {"olmoe", "\"architectures\"", "\"none\""},
        /* By tensor names: transformers 5 saves these types with the class that computes them. */
        {"exaone", "ExaoneForCausalLM", "LlamaForCausalLM"},
        {"sarvam", "SarvamMoEForCausalLM", "Glm4MoeForCausalLM"},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        const char *const edit[] = {c[i].from, c[i].to, NULL};
        check_same(c[i].arch, edit, NULL, c[i].to);
    }
}

static void count_line(void *ud, enum log_level level, const char *text) {
    (void)level;
    *(int *)ud += strstr(text, "is not known; read as") != NULL;
}
/* Checks that classes of towers around any language model are known. */
static void test_tower_classes(void) {
    static const char *const class[] = {"InternVLForConditionalGeneration",
                                        "NobodyKnowsForCausalLM"};
    for (size_t i = 0; i < COUNT_OF(class); i++) {
        const char *const edit[] = {"LlamaForCausalLM", class[i], NULL};
        int n_lines = 0;
        struct err e;
        log_set_level(LOG_WARN);
        log_set_sink(count_line, &n_lines);
        CHECK_OK(convert(folder("llamabias", edit, NULL), "other.gguf", &e));
        log_set_sink(NULL, NULL);
        log_set_level(LOG_ERROR);
        CHECK_EQ_I64(n_lines, (int64_t)i);
    }
}

/* Writes KORMo, a Qwen 2 without biases and with different names of norms. */
static void kormo(struct st_build *b, const struct st_tensor *t) {
    static const char *const norm[][2] = {{"input_layernorm", "pre_attention_layernorm"},
                                          {"post_attention_layernorm", "pre_mlp_layernorm"}};
    for (size_t i = 0; i < 2; i++) {
        const char *at = strstr(t->name, norm[i][0]);
        if (!at) continue;
        char *name = xasprintf("%.*s%s.weight", (int)(at - t->name), t->name, norm[i][1]);
        st_copy(b, name, t);
        free(name);
        return;
    }
    st_copy(b, t->name, t);
}
/* Adds a vision tower, which is left out. */
static void with_tower(struct st_build *b, const struct st_tensor *t) {
    st_copy(b, t->name, t);
    if (strcmp(t->name, "model.norm.weight") == 0) st_copy(b, "vision_tower.patch_embed.weight", t);
}
static void test_qwen2_classes(void) {
    static const char *const qwen2[] = {"MistralForCausalLM", "Qwen2ForCausalLM", NULL};
    static const char *const kormos[] = {"MistralForCausalLM", "KORMoForCausalLM", NULL};
    static const char *const dots[] = {"MistralForCausalLM", "DotsOCRForCausalLM", NULL};
    static const char *const model[] = {"MistralForCausalLM", "Qwen2Model", NULL};
    check_pair("mistralwin", qwen2, kormos, kormo, "KORMo");
    check_pair("mistralwin", qwen2, dots, with_tower, "dots.ocr");
    check_pair("mistralwin", qwen2, model, NULL, "Qwen2Model");
}

static void test_other_heads(void) {
    static const char *const edit[] = {"LlamaForCausalLM", "LlamaForSequenceClassification", NULL};
    static const char *const code[] = {"\"LlamaForCausalLM\"\n ],",
                                       "\"MineForCausalLM\"\n ], \"auto_map\": {},", NULL};
    struct err e = {0};
    CHECK_ERR(convert(folder("llamabias", edit, NULL), "other.gguf", &e), ERR_DATA,
              "LlamaForSequenceClassification is not known");
    CHECK_ERR(convert(folder("llamabias", code, NULL), "other.gguf", &e), ERR_DATA,
              "MineForCausalLM is not known");
}

/* ---- experts ---- */

/* Adds one matrix of a stack as a separate tensor. */
static void add_matrix(struct st_build *b, const char *name, const struct st_tensor *t, int64_t x,
                       int64_t first, int64_t rows) {
    const size_t row = (size_t)t->shape[2] * 2;
    const int64_t shape[2] = {rows, t->shape[2]};
    st_add(b, name, "BF16", 2, shape, t->data + (size_t)(x * t->shape[1] + first) * row,
           (size_t)rows * row);
}
/* Splits fused experts, [experts][rows][columns], into separate tensors. */
static void split(struct st_build *b, const struct st_tensor *t) {
    const char *at = strstr(t->name, "experts.");
    const bool both = at && strcmp(at, "experts.gate_up_proj") == 0;
    if (!both && !(at && strcmp(at, "experts.down_proj") == 0)) {
        st_copy(b, t->name, t);
        return;
    }
    for (int64_t x = 0; x < t->shape[0]; x++)
        for (int k = 0; k < 1 + both; k++) {
            const int64_t rows = t->shape[1] / (1 + both);
            char *name =
                xasprintf("%.*sexperts.%d.%s_proj.weight", (int)(at - t->name), t->name, (int)x,
                          !both ? "down"
                          : k   ? "up"
                                : "gate");
            add_matrix(b, name, t, x, k * rows, rows);
            free(name);
        }
}

/* Stacks a list of experts, or transposes stacked ones. */
static struct buf stack;
static int64_t stacked;
static void fuse_as(struct st_build *b, const struct st_tensor *t, const char *one,
                    const char *as) {
    const char *at = strstr(t->name, "experts."), *tail = at ? strchr(at + 8, '.') : NULL;
    if (!tail || strcmp(tail + 1, one) != 0) return;
    if (atoi(at + 8) == 0) {
        buf_reset(&stack);
        stacked = 0;
    }
    buf_add(&stack, t->data, (size_t)t->n_bytes);
    stacked++;
    const int64_t shape[3] = {stacked, t->shape[0], t->shape[1]};
    if (stacked == 6) { /* number of experts in the checkpoints below */
        char *name = xasprintf("%.*sexperts.%s", (int)(at - t->name), t->name, as);
        st_add(b, name, "BF16", 3, shape, stack.data, stack.len);
        free(name);
    }
}
static void fuse_down(struct st_build *b, const struct st_tensor *t) {
    const bool w2 = str_ends(t->name, ".w2.weight"), down = str_ends(t->name, ".down_proj.weight");
    if (strstr(t->name, "experts.") && (w2 || down) && !strstr(t->name, "shared"))
        fuse_as(b, t, w2 ? "w2.weight" : "down_proj.weight", "down_proj");
    else
        st_copy(b, t->name, t);
}
static void turned(struct st_build *b, const struct st_tensor *t) {
    if (t->n_dims != 3 || !strstr(t->name, "experts.")) {
        st_copy(b, t->name, t);
        return;
    }
    const int64_t n = t->shape[1], m = t->shape[2], shape[3] = {t->shape[0], m, n};
    uint16_t *v = xcalloc((size_t)t->n_elems, sizeof *v);
    for (int64_t i = 0; i < t->n_elems; i++)
        v[i / (n * m) * n * m + i % m * n + i / m % n] = load_u16(t->data + 2 * i);
    st_add(b, t->name, "BF16", 3, shape, v, (size_t)t->n_bytes);
    free(v);
}

/* Writes gpt-oss's experts like Unsloth: one by one, not transposed. */
static void unsloth(struct st_build *b, const struct st_tensor *t) {
    const char *at = strstr(t->name, "experts."), *router = strstr(t->name, "router.");
    char name[256];
    if (router) {
        snprintf(name, sizeof name, "%.*srouter.linear.%s", (int)(router - t->name), t->name,
                 router + 7);
        st_copy(b, name, t);
        return;
    }
    if (!at) {
        st_copy(b, t->name, t);
        return;
    }
    const bool bias = str_ends(at, "_bias");
    const int64_t n = t->shape[1], m = bias ? 1 : t->shape[2], shape[2] = {bias ? n : m, n};
    uint16_t *v = xcalloc((size_t)(n * m), sizeof *v);
    for (int64_t x = 0; x < t->shape[0]; x++) {
        for (int64_t i = 0; i < n * m; i++)
            v[i % m * n + i / m] = load_u16(t->data + 2 * (x * n * m + i));
        snprintf(name, sizeof name, "%.*s%s_projs.%d.%s", (int)(at + 8 - t->name), t->name,
                 at[8] == 'd' ? "down" : "gate_up", (int)x, bias ? "bias" : "weight");
        st_add(b, name, "BF16", bias ? 1 : 2, shape, v, (size_t)(n * m) * 2);
    }
    free(v);
}

/* Joins gate and up of dense feed-forwards and shared experts, gate first. */
static void fuse_gate(struct st_build *b, const struct st_tensor *t) {
    const bool gate = str_ends(t->name, ".gate_proj.weight"),
               up = str_ends(t->name, ".up_proj.weight");
    if (!gate && !up) st_copy(b, t->name, t);
    if (gate) buf_reset(&stack);
    if (gate || up) buf_add(&stack, t->data, (size_t)t->n_bytes);
    if (!up) return;
    const int64_t shape[2] = {2 * t->shape[0], t->shape[1]};
    char *name = xasprintf("%.*s.gate_up_proj.weight",
                           (int)(strlen(t->name) - strlen(".up_proj.weight")), t->name);
    st_add(b, name, st_dtype_name(t->dtype), 2, shape, stack.data, stack.len);
    free(name);
}
/* Names dense feed-forwards as transformers 5 saves those of Kimi Linear. */
static void as_experts(struct st_build *b, const struct st_tensor *t) {
    const char *at = strstr(t->name, ".mlp.");
    char *name = at ? xasprintf("%.*s.block_sparse_moe.%s", (int)(at - t->name), t->name, at + 5)
                    : xstrdup(t->name);
    st_copy(b, name, t);
    free(name);
}

/* Checks that both ways of storing experts give the same file; the micro checkpoints use one of
 * them. */
static void test_experts(void) {
    check_same("olmoe", NULL, fuse_down, "down fused");
    check_same("mixtral", NULL, fuse_down, "down fused");
    check_same("qwen2moe", NULL, fuse_down, "down fused");
    check_same("phimoe", NULL, fuse_down, "down fused");
    check_same("mellum", NULL, fuse_down, "down fused");
    check_same("qwen3vlmoe", NULL, turned, "as rows and columns");
    check_same("llama4", NULL, turned, "as rows and columns");
    check_same("granitemoe", NULL, turned, "transposed");
    check_same("gemma4moe", NULL, split, "one by one");
    check_same("gptoss", NULL, unsloth, "one by one");
    check_same("minimax-m3", NULL, fuse_gate, "gate and up fused");
    check_same("kimi-linear", NULL, as_experts, "dense ones named as experts");
    buf_release(&stack);
}

/* ---- tying ---- */

/* Adds a head to a model with tied embeddings: an identical copy is left out, a different one is
 * written. */
static void copied_head(struct st_build *b, const struct st_tensor *t) {
    st_copy(b, t->name, t);
    if (strcmp(t->name, "model.embed_tokens.weight") == 0) st_copy(b, "lm_head.weight", t);
}
static void test_tying(void) {
    static const char *const tied[] = {"\"tie_word_embeddings\": false",
                                       "\"tie_word_embeddings\": true", NULL};
    static const char *const part[] = {"\"tie_word_embeddings\": true",
                                       "\"tie_word_embeddings\": true, \"text_config\": "
                                       "{\"tie_word_embeddings\": false}",
                                       NULL};
    check_same("smollm3", part, NULL, "tied, but not in text_config, as vision models are saved");
    check_same("smollm3", NULL, copied_head, "a copy as the head");
    check_same("olmoe", tied, NULL, "another head, tied");
    check_same("olmoe", NULL, NULL, "as it is");
}

/* ---- quantized parts ---- */

static const char *stored_packed; /* part of the names of tensors */
/* Stores matrices as compressed-tensors does, in 4 bits, with arbitrary values. */
static void packed(struct st_build *b, const struct st_tensor *t) {
    const int64_t n = t->shape[0], scale[2] = {n, 1}, words[2] = {n, t->shape[1] / 8};
    if (!strstr(t->name, stored_packed) || t->n_dims != 2) {
        st_copy(b, t->name, t);
        return;
    }
    uint8_t *v = xcalloc((size_t)n, 2);
    char *name = xasprintf("%s_packed", t->name);
    for (int64_t i = 0; i < n; i++) store_u16(v + 2 * i, 0x3c00);
    st_add(b, name, "I32", 2, words, t->data, (size_t)(n * words[1] * 4));
    free(name);
    name = xasprintf("%s_scale", t->name);
    st_add(b, name, "BF16", 2, scale, v, (size_t)n * 2);
    free(name);
    free(v);
}

/* Checks that quantized tensors are found where others decide about the model: a head with contrary
 * statements about its tie, the indexer, matrices stored alone or fused. */
static void test_packed(void) {
    static const char *const tied[] = {"\"tie_word_embeddings\": false",
                                       "\"tie_word_embeddings\": true", NULL};
    static const char *const part[] = {"\"tie_word_embeddings\": false",
                                       "\"tie_word_embeddings\": true, \"text_config\": "
                                       "{\"tie_word_embeddings\": false}",
                                       NULL};
    static const struct {
        const char *arch, *const *edit, *stored, *tensor;
    } c[] = {
        {"olmoe", part, "lm_head", "output.weight"},
        {"olmoe", tied, "lm_head", "output.weight"},
        {"deepseek-v32", NULL, "indexer.wq_b", "blk.0.indexer.attn_q_b.weight"},
        {"granite", NULL, "mlp.", "blk.0.ffn_gate.weight"},
        {"granite4", NULL, "shared_mlp.", "blk.0.ffn_gate.weight"},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        struct err e = {0};
        struct gguf *g = NULL;
        stored_packed = c[i].stored;
        CHECK_OK(convert(folder(c[i].arch, c[i].edit, packed), "other.gguf", &e));
        CHECK_OK(gguf_open(&g, tmp_path("other.gguf"), 0, &e));
        if (g && !gguf_find_tensor(g, c[i].tensor)) CHECK_FAIL("%s: no %s", c[i].arch, c[i].tensor);
        gguf_close(g);
        unlink(tmp_path("other.gguf"));
    }
}

int main(void) {
    tmp_make();
    log_set_level(LOG_ERROR);
    RUN(test_prefixes);
    RUN(test_left_over);
    RUN(test_prefix_errors);
    RUN(test_classes);
    RUN(test_tower_classes);
    RUN(test_indexers);
    RUN(test_qwen2_classes);
    RUN(test_other_heads);
    RUN(test_experts);
    RUN(test_tying);
    RUN(test_packed);
    tmp_remove();
    return check_done();
}
