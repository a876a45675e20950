// SPDX-License-Identifier: MIT
/* --lora compared with peft: merged weights equal peft's (tests/oracle/lora.py), tensors that an
 * adapter does not name are unchanged, and adapters that cannot be merged are rejected. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/convert.h"
#include "containers/gguf.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/io.h"
#include "tests/check.h"
#include "tests/unit/micro.h"
#include "tests/unit/st_build.h"
#include "tests/unit/tmpdir.h"

#define DIR "tests/golden/lora"

static int convert(const char *base, const char *lora, const char *out, struct err *e) {
    char src[256];
    struct convert_report r;
    snprintf(src, sizeof src, "tests/golden/models/%s", base);
    struct convert_opts o = {
        .src = src, .out = tmp_path(out), .type = "f32", .lora = lora, .overwrite = true};
    return convert_run(&o, &r, e);
}

/* Converts the micro checkpoint `arch` with the adapter in own/. */
static int onto(const char *arch, struct err *e) {
    char dir[256];
    struct convert_report r;
    snprintf(dir, sizeof dir, "tests/golden/archs/%s", arch);
    struct convert_opts o = {.src = micro_folder(dir, NULL),
                             .out = tmp_path("own.gguf"),
                             .type = "f32",
                             .lora = tmp_path("own"),
                             .overwrite = true};
    return convert_run(&o, &r, e);
}

static void check_case(const struct json *c) {
    const char *base = json_str(json_get(c, "base"));
    const struct json *want = json_get(c, "expected");
    struct err e;
    struct gguf *plain = NULL, *g = NULL;
    char lora[256];
    int n = 0;
    snprintf(lora, sizeof lora, DIR "/%s", json_str(json_get(c, "adapter")));
    CHECK_OK(convert(base, NULL, "plain.gguf", &e));
    CHECK_OK(convert(base, lora, "merged.gguf", &e));
    CHECK_OK(gguf_open(&plain, tmp_path("plain.gguf"), 0, &e));
    CHECK_OK(gguf_open(&g, tmp_path("merged.gguf"), 0, &e));
    for (int64_t i = 0; g && plain && i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i), *p = gguf_find_tensor(plain, t->name);
        const char *sum = json_str(json_get(want, t->name));
        bool same = p && p->n_bytes == t->n_bytes && memcmp(p->data, t->data, t->n_bytes) == 0;
        struct sha256 h;
        char hex[65];
        sha256_init(&h);
        sha256_add(&h, t->data, t->n_bytes);
        sha256_hex(&h, hex);
        if (!sum && !same) CHECK_FAIL("%s: %s changed", lora, t->name);
        if (sum && strcmp(sum, hex) != 0) CHECK_FAIL("%s: %s differs from peft", lora, t->name);
        n += sum != NULL;
    }
    CHECK_EQ_I64(n, json_len(want));
    gguf_close(plain);
    gguf_close(g);
}

static void test_merging_equals_peft(void) {
    struct err e;
    struct json *all = NULL;
    CHECK_OK(json_read(&all, DIR "/cases.json", 1 << 20, &e));
    CHECK_EQ_I64(json_len(all), 9);
    for (const struct json *c = json_first(all); c; c = json_next(c)) check_case(c);
    json_free(all);
}

/* Checks that the Mistral adapter, with one text in its configuration replaced, is refused on a
 * base. */
static void refused(const char *base, const char *from, const char *to, const char *message) {
    struct err e = {0};
    char *p = NULL, *cwd = getcwd(NULL, 0), target[512];
    size_t n = 0;
    struct buf b = {0};
    mkdir(tmp_path("lora"), 0700);
    CHECK_OK(io_read_file(&p, &n, DIR "/mistral/adapter_config.json", 1 << 20, &e));
    char *at = p ? strstr(p, from) : NULL;
    CHECK(at != NULL);
    if (at) {
        buf_add(&b, p, (size_t)(at - p));
        buf_str(&b, to);
        buf_str(&b, at + strlen(from));
        tmp_write("lora/adapter_config.json", b.data, b.len);
    }
    snprintf(target, sizeof target, "%s/" DIR "/mistral/adapter_model.safetensors", cwd);
    unlink(tmp_path("lora/adapter_model.safetensors"));
    CHECK(!symlink(target, tmp_path("lora/adapter_model.safetensors")));
    unlink(tmp_path("out.gguf"));
    CHECK_ERR(convert(base, tmp_path("lora"), "out.gguf", &e), ERR_DATA, message);
    CHECK(!io_exists(tmp_path("out.gguf")));
    buf_release(&b);
    free(p);
    free(cwd);
}

static void test_refusals(void) {
    static const char way[] = "merge the adapter with peft and convert the result";
    refused("qwen3", "\"r\": 2", "\"r\": 2", "was made for another");
    refused("mistral", "\"use_dora\": false", "\"use_dora\": true", "use_dora");
    refused("mistral", "\"use_dora\": false", "\"use_dora\": true", way);
    refused("mistral", "\"peft_type\": \"LORA\"", "\"peft_type\": \"LOHA\"", "LOHA");
    refused("mistral", "\"peft_type\": \"LORA\"", "\"peft_type\": \"IA3\"", way);
    refused("mistral", "\"peft_type\": \"LORA\"", "\"peft_type\": \"PREFIX_TUNING\"",
            "not to its weights");
    refused("mistral", "\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa_niter_4\"",
            "pissa_niter_4");
    refused("mistral", "\"alora_invocation_tokens\": null", "\"alora_invocation_tokens\": [1]",
            "cannot be merged");
    refused("mistral", "\"alpha_pattern\": {}", "\"alpha_pattern\": {\"^model.*(q\": 2}",
            "alpha_pattern \"^model.*(q\"");
    refused("mistral", "\"alpha_pattern\": {}", "\"alpha_pattern\": [2]", "not an object");
    refused("mistral", "\"alpha_pattern\": {}", "\"alpha_pattern\": {\"q_proj\": \"2\"}",
            "a value of alpha_pattern is not a finite number");
    refused("mistral", "\"lora_alpha\": 4", "\"lora_alpha\": NaN", "lora_alpha is not a finite");
    refused("mistral", "\"lora_alpha\": 4", "\"lora_alpha\": null", "lora_alpha is not a finite");
    refused("mistral", "\"lora_alpha\": 4", "\"lora_alpha\": \"4\"", "lora_alpha is not a finite");
    refused("mistral", "\"r\": 2", "\"r\": 16", "gives it rank 16");
    refused("mistral", "\"r\": 2", "\"r\": null", "r is missing: peft assumes 8");
    refused("mistral", "\"r\": 2", "\"ra\": 2", "r is missing: peft assumes 8");
    refused("qwen3", "\"rank_pattern\": {}", "\"rank_pattern\": []", "was made for another");
    refused("mistral", "\"rank_pattern\": {}", "\"rank_pattern\": {\"k_proj\": 4}",
            "k_proj.lora_A.weight has rank 2, but ");
    refused("mistral", "\"rank_pattern\": {}", "\"rank_pattern\": 4",
            "rank_pattern is not an object");
    refused("mistral", "\"peft_type\": \"LORA\"", "\"fine_tune_type\": \"lora\"", "MLX");
    refused("mistral", "\"peft_type\": \"LORA\"", "\"type\": \"lora\"", "no peft_type");
    rename(tmp_path("lora/adapter_config.json"), tmp_path("lora/config.json"));
    struct err e = {0};
    CHECK_ERR(convert("mistral", tmp_path("lora"), "out.gguf", &e), ERR_DATA,
              "is not the folder of a peft adapter");
    CHECK_ERR(convert("qwen35", DIR "/experts", "out.gguf", &e), ERR_DATA, way);
}

/* ---- tensors trained as a whole ---- */

enum { VOCAB = 1024, WIDTH = 128 };

/* Returns n synthetic rows; the first ones do not depend on n. */
static float *rows_of(int n, int seed) {
    float *x = xcalloc((size_t)(n * WIDTH), sizeof *x);
    for (int i = 0; i < n * WIDTH; i++) x[i] = (float)((i * 7 + seed) % 101 - 50) / 64;
    return x;
}

struct part {
    const char *name;
    const float *v;
    int n_dims, rows, cols;
};

static void write_adapter(const char *config, const struct part *p) {
    struct st_build b = {0};
    mkdir(tmp_path("own"), 0700);
    unlink(tmp_path("own/tokenizer.json"));
    tmp_write("own/adapter_config.json", config, strlen(config));
    for (; p->name; p++) {
        const int64_t shape[] = {p->rows, p->cols};
        st_add(&b, p->name, "F32", p->n_dims, shape, p->v,
               sizeof *p->v * (size_t)(p->rows * (p->n_dims > 1 ? p->cols : 1)));
    }
    st_finish(&b, tmp_path("own/adapter_model.safetensors"));
}

/* Converts qwen3, which ties its head, with that adapter. NULL: refused, with *e. */
static struct gguf *merged(const char *base, struct err *e) {
    struct gguf *g = NULL;
    if (convert(base, tmp_path("own"), "own.gguf", e)) return NULL;
    CHECK(gguf_open(&g, tmp_path("own.gguf"), 0, e) == 0);
    return g;
}

static void holds(const struct gguf *g, const char *name, const float *v, int64_t n) {
    const struct gguf_tensor *t = g ? gguf_find_tensor(g, name) : NULL;
    if (!t || t->n_bytes != (uint64_t)n * 4 || memcmp(t->data, v, (size_t)n * 4) != 0)
        CHECK_FAIL("%s differs from the trained one", name);
}

#define CONFIG(x) "{\"peft_type\": \"LORA\", \"r\": 1, \"lora_alpha\": 8, \"bias\": \"none\"" x "}"
#define HEAD "base_model.model."

static void test_heads(void) {
    struct err e = {0};
    float *embd = rows_of(VOCAB + 2, 1), *head = rows_of(VOCAB + 2, 5);
    const float *base;
    struct gguf *plain = NULL, *g;
    const int64_t n = (int64_t)VOCAB * WIDTH;
    CHECK_OK(convert("qwen3", NULL, "plain.gguf", &e));
    CHECK_OK(gguf_open(&plain, tmp_path("plain.gguf"), 0, &e));
    CHECK(!gguf_find_tensor(plain, "output.weight"));
    base = (const float *)(const void *)gguf_find_tensor(plain, "token_embd.weight")->data;

    write_adapter(CONFIG(),
                  (struct part[]){{HEAD "lm_head.weight", head, 2, VOCAB, WIDTH},
                                  {HEAD "model.embed_tokens.weight", embd, 2, VOCAB, WIDTH},
                                  {0}});
    g = merged("qwen3", &e); /* both, apart */
    holds(g, "token_embd.weight", embd, n);
    holds(g, "output.weight", head, n);
    gguf_close(g);
    write_adapter(CONFIG(),
                  (struct part[]){
                      {HEAD "lm_head.modules_to_save.default.weight", head, 2, VOCAB, WIDTH}, {0}});
    g = merged("qwen3", &e); /* only the head, under the name that a different tool gives it */
    holds(g, "token_embd.weight", base, n);
    holds(g, "output.weight", head, n);
    gguf_close(g);
    write_adapter(CONFIG(),
                  (struct part[]){{HEAD "model.embed_tokens.weight", embd, 2, VOCAB, WIDTH}, {0}});
    g = merged("qwen3", &e); /* only the embeddings: peft leaves the head unchanged */
    holds(g, "token_embd.weight", embd, n);
    holds(g, "output.weight", base, n);
    gguf_close(g);
    write_adapter(CONFIG(),
                  (struct part[]){{HEAD "lm_head.weight", embd, 2, VOCAB, WIDTH},
                                  {HEAD "model.embed_tokens.weight", embd, 2, VOCAB, WIDTH},
                                  {0}});
    g = merged("qwen3", &e); /* both, with the same values: they stay tied */
    holds(g, "token_embd.weight", embd, n);
    CHECK(g && !gguf_find_tensor(g, "output.weight"));
    gguf_close(g);
    /* Written twice, as peft does after resizing the vocabulary: peft loads the shorter name. */
    for (int turn = 0; turn < 2; turn++) {
        const char *const name[] = {HEAD "lm_head.weight", HEAD "lm_head.modules_to_save.weight"};
        write_adapter(CONFIG(), (struct part[]){
                                    {name[turn], turn ? embd : head, 2, VOCAB, WIDTH},
                                    {HEAD "lm_head.original_module.weight", embd, 2, VOCAB, WIDTH},
                                    {name[!turn], turn ? head : embd, 2, VOCAB, WIDTH},
                                    {0}});
        g = merged("qwen3", &e);
        if (!g) CHECK_FAIL("%s", e.msg);
        holds(g, "output.weight", head, n);
        gguf_close(g);
    }
    write_adapter(CONFIG(),
                  (struct part[]){{HEAD "lm_head.weight", head, 2, VOCAB, WIDTH},
                                  {HEAD "_orig_mod.lm_head.weight", head, 2, VOCAB, WIDTH},
                                  {0}});
    CHECK(!merged("qwen3", &e) && strstr(e.msg, "lm_head.weight appears twice"));
    gguf_close(plain);
    free(embd);
    free(head);
}

/* Tests resized vocabularies: the adapter's rows are used, and the tokenizer of its folder. */
static void test_added_rows(void) {
    struct err e = {0};
    float *embd = rows_of(VOCAB + 2, 1), *head = rows_of(VOCAB + 2, 5);
    const int64_t n = (int64_t)(VOCAB + 2) * WIDTH;
    struct gguf *g;
    write_adapter(CONFIG(),
                  (struct part[]){{HEAD "lm_head.weight", head, 2, VOCAB + 2, WIDTH},
                                  {HEAD "model.embed_tokens.weight", embd, 2, VOCAB + 2, WIDTH},
                                  {0}});
    char *p = NULL;
    size_t len = 0;
    struct buf b = {0};
    CHECK_OK(io_read_file(&p, &len, "tests/golden/models/qwen3/tokenizer.json", 1 << 24, &e));
    char *at = p ? strstr(p, "\"added_tokens\"") : NULL;
    at = at ? strchr(at, '[') : NULL;
    CHECK(at != NULL);
    if (at) {
        buf_add(&b, p, (size_t)(at + 1 - p));
        buf_str(
            &b,
            "{\"id\": 1024, \"content\": \"<|mine|>\", \"single_word\": false, \"lstrip\": false, "
            "\"rstrip\": false, \"normalized\": false, \"special\": true},");
        buf_str(&b, at + 1);
        tmp_write("own/tokenizer.json", b.data, b.len);
    }
    g = merged("qwen3", &e);
    if (!g) CHECK_FAIL("%s", e.msg);
    holds(g, "token_embd.weight", embd, n);
    holds(g, "output.weight", head, n);
    const struct gguf_kv *kv = g ? gguf_find(g, "tokenizer.ggml.tokens") : NULL;
    CHECK(kv && kv->count == VOCAB + 2);
    const uint8_t *pos = kv ? kv->data : NULL;
    for (uint64_t i = 0; kv && i < kv->count; i++) {
        const char *s;
        uint64_t k;
        gguf_kv_str_next(kv, &pos, &s, &k);
        if (i == 1024) CHECK(k == 8 && memcmp(s, "<|mine|>", 8) == 0);
    }
    gguf_close(g);
    /* Embeddings only: a tied head uses them, a separate head would lack rows. */
    const struct part one[] = {{HEAD "model.embed_tokens.weight", embd, 2, VOCAB + 2, WIDTH}, {0}};
    write_adapter(CONFIG(), one);
    g = merged("qwen3", &e);
    holds(g, "token_embd.weight", embd, n);
    CHECK(g && !gguf_find_tensor(g, "output.weight"));
    gguf_close(g);
    CHECK(!merged("mistral", &e));
    CHECK(strstr(e.msg, "only one of embeddings and head has rows for all: merge the adapter") !=
          NULL);
    buf_release(&b);
    free(p);
    free(embd);
    free(head);
}

/* Tests names written by other tools, biases that the base lacks, and a tower that is left out. */
static void test_names(void) {
    struct err e = {0};
    float *a = rows_of(1, 3), *b = rows_of(3, 4);
    struct gguf *g, *want = NULL;
    const char *const q = "model.layers.1.mlp.up_proj.";
    char name[4][160];
    for (int form = 0; form < 3; form++) {
        static const char *const head[] = {HEAD, HEAD "_orig_mod.", ""}, *const tail[] = {
                                                                             "", "", ".default"};
        snprintf(name[0], 160, "%s%slora_A%s.weight", head[form], q, tail[form]);
        snprintf(name[1], 160, "%s%slora_B%s.weight", head[form], q, tail[form]);
        write_adapter(CONFIG(),
                      (struct part[]){{name[0], a, 2, 1, WIDTH}, {name[1], b, 2, 320, 1}, {0}});
        g = merged("qwen3", &e);
        if (!form)
            want = g;
        else if (g && want) {
            const struct gguf_tensor *w = gguf_find_tensor(want, "blk.1.ffn_up.weight");
            const struct gguf_tensor *is = gguf_find_tensor(g, "blk.1.ffn_up.weight");
            CHECK(w && is && memcmp(w->data, is->data, w->n_bytes) == 0);
        }
        if (!g) CHECK_FAIL("%s: %s", name[0], e.msg);
        if (form) gguf_close(g);
    }
    gguf_close(want);
    write_adapter(
        CONFIG(),
        (struct part[]){{HEAD "model.layers.0.self_attn.q_proj.bias", a, 1, WIDTH, 1}, {0}});
    CHECK(!merged("qwen3", &e));
    CHECK(strstr(e.msg, "the base has no such bias") &&
          strstr(e.msg, "merge the adapter with peft"));
    /* A tower is left out like the base's; a head that the format cannot store is refused. */
    write_adapter(CONFIG(),
                  (struct part[]){
                      {HEAD "model.visual.blocks.0.attn.qkv.lora_A.weight", a, 2, 1, WIDTH}, {0}});
    CHECK(!convert("qwen35", tmp_path("own"), "own.gguf", &e));
    CHECK_OK(onto("glm4v", &e)); /* its table does not list "visual." */
    write_adapter(CONFIG(), (struct part[]){{HEAD "lm_head.weight", b, 2, 3, WIDTH}, {0}});
    CHECK(!merged("gemma4dense", &e));
    CHECK(strstr(e.msg, "merge the adapter with peft") != NULL);
    free(a);
    free(b);
}

/* An adapter of rank 1 for one module. */
struct module {
    const char *name;
    int in, out;
    const float *a, *b;
};

/* Converts the micro checkpoint with an adapter of up to two modules and reads the file. */
static char *merged_onto(const char *arch, const struct module *m, size_t *n) {
    struct err e = {0};
    struct part part[5] = {{0}};
    char name[4][160], *file = NULL;
    for (int i = 0; i < 2 && m[i].name; i++)
        for (int k = 0; k < 2; k++) {
            struct part *p = &part[2 * i + k];
            snprintf(name[2 * i + k], 160, HEAD "model.%s.lora_%c.weight", m[i].name, 'A' + k);
            *p = (struct part){name[2 * i + k], k ? m[i].b : m[i].a, 2, k ? m[i].out : 1,
                               k ? 1 : m[i].in};
        }
    write_adapter(CONFIG(), part);
    if (onto(arch, &e))
        CHECK_FAIL("%s, %s: %s", arch, m->name, e.msg);
    else
        CHECK_OK(io_read_file(&file, n, tmp_path("own.gguf"), 1 << 26, &e));
    return file;
}

/* Tests modules that transformers names or fuses in memory, and thus in adapters, in other ways
 * than in checkpoints: the file is that of an adapter with the checkpoint's names. */
static void test_memory_names(void) {
    float *x = rows_of(16, 3), *y = rows_of(16, 4);
    const struct {
        const char *arch;
        struct module memory[3], folder[3];
    } c[] = {
        {"bailingmoe3",
         {{"layers.2.self_attn.o_proj", 96, 64, x, y}},
         {{"layers.2.attention.dense", 96, 64, x, y}}},
        {"bailingmoe3",
         {{"layers.0.self_attn.forget_gate.f_proj", 64, 64, x, y}},
         {{"layers.0.attention.f_proj", 64, 64, x, y}}},
        {"hyv3",
         {{"layers.1.mlp.shared_experts.down_proj", 48, 64, x, y}},
         {{"layers.1.mlp.shared_mlp.down_proj", 48, 64, x, y}}},
        {"laguna",
         {{"layers.1.mlp.shared_experts.down_proj", 40, 64, x, y}},
         {{"layers.1.mlp.shared_expert.down_proj", 40, 64, x, y}}},
        {"kimi-linear",
         {{"layers.0.self_attn.forget_gate.f_a_proj", 64, 16, x, y}},
         {{"layers.0.self_attn.f_a_proj", 64, 16, x, y}}},
        {"phimoe",
         {{"layers.0.mlp.router", 64, 6, x, y}},
         {{"layers.0.block_sparse_moe.gate", 64, 6, x, y}}},
        {"minimax-m3",
         {{"language_model.layers.1.self_attn.indexer.q_proj", 64, 32, x, y}},
         {{"layers.1.self_attn.index_q_proj", 64, 32, x, y}}},
        {"minimax-m3",
         {{"language_model.layers.0.mlp.gate_up_proj", 64, 192, x, y}},
         {{"layers.0.mlp.gate_proj", 64, 96, x, y}, {"layers.0.mlp.up_proj", 64, 96, x, y + 96}}},
    };
    for (size_t i = 0; i < COUNT_OF(c); i++) {
        size_t n = 0, m = 0;
        char *is = merged_onto(c[i].arch, c[i].memory, &n);
        char *want = merged_onto(c[i].arch, c[i].folder, &m);
        if (!is || !want || n != m || memcmp(is, want, n) != 0)
            CHECK_FAIL("%s: %s is not %s", c[i].arch, c[i].memory->name, c[i].folder->name);
        free(is);
        free(want);
    }
    free(x);
    free(y);
}

/* Tests fused experts under their name in memory: expert x gains lora_alpha / r * b * a. */
static void test_granite_experts(void) {
    enum { EXPERTS = 6, IN = 64, OUT = 192 };
    float *a = rows_of(16, 3), *b = rows_of(16, 4);
    const float *v[2][2];
    struct gguf *g[2] = {NULL, NULL};
    struct err e = {0};
    for (int k = 0; k < 2; k++) {
        write_adapter(
            CONFIG(),
            (struct part[]){{k ? HEAD "model.layers.0.block_sparse_moe.experts.lora_A.weight"
                               : HEAD "visual.x.lora_A.weight",
                             a, 2, EXPERTS, IN},
                            {k ? HEAD "model.layers.0.block_sparse_moe.experts.lora_B.weight"
                               : HEAD "visual.x.lora_B.weight",
                             b, 2, OUT, EXPERTS},
                            {0}});
        CHECK_OK(onto("granitemoe", &e));
        rename(tmp_path("own.gguf"), tmp_path(k ? "b.gguf" : "a.gguf"));
        CHECK_OK(gguf_open(&g[k], tmp_path(k ? "b.gguf" : "a.gguf"), 0, &e));
        for (int up = 0; up < 2; up++) {
            const struct gguf_tensor *t =
                g[k] ? gguf_find_tensor(g[k], up ? "blk.0.ffn_up_exps.weight"
                                                 : "blk.0.ffn_gate_exps.weight")
                     : NULL;
            v[k][up] = t ? (const float *)(const void *)t->data : a;
        }
    }
    int wrong = 0;
    for (int i = 0; i < EXPERTS * OUT * IN; i++) {
        const int x = i / (OUT * IN), row = i / IN % OUT, col = i % IN, up = row >= OUT / 2;
        const int at = (x * OUT / 2 + row % (OUT / 2)) * IN + col;
        const float delta = 8 * b[row * EXPERTS + x] * a[x * IN + col];
        wrong += fabsf(v[1][up][at] - (v[0][up][at] + delta)) > 0;
    }
    CHECK_EQ_I64(wrong, 0);
    gguf_close(g[0]);
    gguf_close(g[1]);
    free(a);
    free(b);
}

/* Tests files whose tensors are not a complete adapter. */
static void test_torn_adapters(void) {
    struct err e = {0};
    float *a = rows_of(1, 3), *b = rows_of(3, 4);
    const char *const q = HEAD "model.layers.1.mlp.up_proj.lora_A.weight",
                      *const p = HEAD "model.layers.1.mlp.up_proj.lora_B.weight";
    write_adapter(CONFIG(), (struct part[]){{q, a, 1, 0, 0}, {p, b, 1, 0, 0}, {0}});
    CHECK(!merged("qwen3", &e) && strstr(e.msg, "has no tensors with values"));
    write_adapter(CONFIG(), (struct part[]){{q, a, 1, 0, 0},
                                            {p, b, 1, 0, 0},
                                            {HEAD "model.norm.weight", a, 1, WIDTH, 1},
                                            {0}});
    CHECK(!merged("qwen3", &e) && strstr(e.msg, "lora_A.weight has no values: save the adapter"));
    CHECK(strstr(e.msg, "after gathering its shards") != NULL);
    write_adapter(CONFIG(), (struct part[]){{q, a, 2, 1, WIDTH}, {0}});
    CHECK(!merged("qwen3", &e) && strstr(e.msg, "has no matching lora_B"));
    write_adapter(
        CONFIG(),
        (struct part[]){{q, a, 2, 1, WIDTH},
                        {p, b, 2, 320, 1},
                        {HEAD "model.layers.1.mlp.up_proj.lora_magnitude_vector", b, 1, 320, 1},
                        {0}});
    CHECK(!merged("qwen3", &e) && strstr(e.msg, "belongs to use_dora, which is not supported"));
    a[5] = NAN;
    write_adapter(CONFIG(), (struct part[]){{q, a, 2, 1, WIDTH}, {p, b, 2, 320, 1}, {0}});
    CHECK(!merged("qwen3", &e) && strstr(e.msg, "lora_A.weight: value 5 is NaN"));
    a[5] = INFINITY;
    write_adapter(CONFIG(), (struct part[]){{HEAD "model.norm.weight", a, 1, WIDTH, 1}, {0}});
    CHECK(!merged("qwen3", &e) && strstr(e.msg, "norm.weight: value 5 is infinite"));
    free(a);
    free(b);
}

int main(void) {
    tmp_make();
    progress_set_mode(PROG_NEVER);
    log_set_level(LOG_ERROR);
    RUN(test_merging_equals_peft);
    RUN(test_refusals);
    RUN(test_heads);
    RUN(test_added_rows);
    RUN(test_names);
    RUN(test_memory_names);
    RUN(test_granite_experts);
    RUN(test_torn_adapters);
    tmp_remove();
    return check_done();
}
