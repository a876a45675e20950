// SPDX-License-Identifier: MIT
/* Optional keys, written as by llama.cpp's converter: the expected values follow from its rules
 * (its conversion/ folder) and the config.json of each micro checkpoint. */
#include "convert/convert.h"
#include "base/log.h"
#include "tests/unit/micro.h"

static const struct {
    const char *name, *key;
    double want[6]; /* of an array: one per layer */
    int n;          /* 0: a single number */
} keys[] = {
    {"afmoe", "afmoe.vocab_size", {1024}, 0},
    {"afmoe", "afmoe.rope.dimension_count", {16}, 0},
    {"exaone4", "exaone4.vocab_size", {1024}, 0},
    {"exaonemoe", "exaone-moe.vocab_size", {1024}, 0},
    {"falcon-h1", "falcon-h1.vocab_size", {1024}, 0},
    {"nemotron_h", "nemotron_h.context_length", {1048576}, 0},
    {"nemotron_h", "nemotron_h.rope.dimension_count", {16}, 0}, /* width / heads, not head_dim */
    {"nemotron_h", "nemotron_h.feed_forward_length", {0, 96, 0, 0, 96, 0}, 6},
    {"nemotron_h_moe", "nemotron_h_moe.context_length", {1048576}, 0},
    {"nemotron_h_moe", "nemotron_h_moe.rope.dimension_count", {16}, 0},
    {"nemotron_h_moe", "nemotron_h_moe.feed_forward_length", {0, 40, 0, 40, 0}, 5},
    {"kimi-linear", "kimi-linear.expert_group_used_count", {1}, 0},
    {"hunyuan", "hunyuan-dense.context_length", {262144}, 0},
    {"hunyuan", "hunyuan-dense.rope.scaling.original_context_length", {262144}, 0},
    {"hunyuanmoe", "hunyuan-moe.context_length", {262144}, 0},
    {"gptoss", "gpt-oss.rope.scaling.yarn_beta_fast", {32}, 0},
    {"gptoss", "gpt-oss.rope.scaling.yarn_beta_slow", {1}, 0},
    {"mistral4", "mistral4.rope.scaling.yarn_beta_fast", {32}, 0},
    {"ministral3", "mistral3.rope.scaling.yarn_beta_slow", {1}, 0},
    {"deepseek-v2", "deepseek2.rope.scaling.yarn_beta_fast", {32}, 0},
    {"deepseek-v2", "deepseek2.rope.scaling.yarn_beta_slow", {1}, 0},
    {"olmo3", "olmo2.rope.scaling.yarn_beta_fast", {32}, 0},
};

static double number(const struct gguf *g, const char *key, uint64_t i) {
    struct err e = {0};
    const struct gguf_kv *kv = gguf_find(g, key);
    double v = -1;
    if (kv && kv->type == GV_ARR) return i < kv->count ? (double)gguf_kv_i64(kv, i) : -1;
    if (kv && kv->type == GV_U32) return (double)gguf_u64_or(g, key, 0);
    if (kv) CHECK_OK(gguf_get_f64(g, key, &v, &e));
    return v;
}

static struct gguf *convert(const char *name, const char *const *edit) {
    char *dir = xasprintf("tests/golden/archs/%s", name);
    struct convert_opts o = {
        .src = micro_folder(dir, edit), .out = tmp_path("keys.gguf"), .overwrite = true};
    struct convert_report r;
    struct err e = {0};
    struct gguf *g = NULL;
    CHECK_OK(convert_run(&o, &r, &e));
    CHECK_OK(gguf_open(&g, tmp_path("keys.gguf"), 0, &e));
    free(dir);
    return g;
}

static void test_keys(void) {
    struct gguf *g = NULL;
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        if (!i || strcmp(keys[i].name, keys[i - 1].name) != 0) {
            gguf_close(g);
            g = convert(keys[i].name, NULL);
        }
        const struct gguf_kv *kv = g ? gguf_find(g, keys[i].key) : NULL;
        if (!kv || (kv->type == GV_ARR) != (keys[i].n > 0) ||
            (keys[i].n && kv->count != (uint64_t)keys[i].n)) {
            CHECK_FAIL("%s: no such key, or of another kind", keys[i].key);
            continue;
        }
        for (int k = 0; k < (keys[i].n ? keys[i].n : 1); k++)
            if (number(g, keys[i].key, (uint64_t)k) != keys[i].want[k])
                CHECK_FAIL("%s[%d] is %g, not %g", keys[i].key, k,
                           number(g, keys[i].key, (uint64_t)k), keys[i].want[k]);
    }
    gguf_close(g);
}

/* Checks that YaRN's default numbers are written only if config.json gives them. attention_factor 1
 * + 0.1 ln(4) is the default: readers multiply by it anyway, so the key is 1.
 */
static void test_yarn(void) {
    static const char *const given[] = {"\"attention_factor\": 1.2",
                                        "\"attention_factor\": 1.138629436111989", NULL};
    static const char *const none[] = {"\"beta_fast\": 32.0", "\"beta_fast\": null",
                                       "\"attention_factor\": 1.2", "\"attention_factor\": null",
                                       NULL};
    struct gguf *g = convert("olmo3", given);
    if (g) CHECK(fabs(number(g, "olmo2.rope.scaling.yarn_attn_factor", 0) - 1) < 1e-6);
    gguf_close(g);
    g = convert("olmo3", none);
    if (g) {
        CHECK(!gguf_find(g, "olmo2.rope.scaling.yarn_attn_factor"));
        CHECK(!gguf_find(g, "olmo2.rope.scaling.yarn_beta_fast"));
        CHECK(gguf_find(g, "olmo2.rope.scaling.yarn_beta_slow") != NULL);
    }
    gguf_close(g);
}

/* Checks the caps of a Gemma 2 without any: other programs cap by a missing key's default, and
 * divide by one of 0. */
static void test_no_caps(void) {
    static const char *const off[] = {
        "\"attn_logit_softcapping\": 5.0", "\"attn_logit_softcapping\": null",
        "\"final_logit_softcapping\": 8.0", "\"final_logit_softcapping\": null", NULL};
    struct gguf *g = convert("gemma2", off);
    if (g) CHECK(number(g, "gemma2.attn_logit_softcapping", 0) == 1e4);
    if (g) CHECK(number(g, "gemma2.final_logit_softcapping", 0) == 1e4);
    gguf_close(g);
}

/* Checks that an architecture whose files name the rope scaling "none" keeps a given one. */
static void test_scaling(void) {
    static const char *const linear[] = {
        "\"vocab_size\": 1024",
        "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4.0}, \"vocab_size\": 1024",
        NULL};
    static const char *const name[][2] = {
        {"cohere2", "cohere2"}, {"cohere2moe", "cohere2moe"}, {"commandr", "command-r"}};
    for (size_t i = 0; i < COUNT_OF(name); i++)
        for (int scaled = 0; scaled < 2; scaled++) {
            char key[64];
            const char *type = NULL;
            struct err e = {0};
            struct gguf *g = convert(name[i][0], scaled ? linear : NULL);
            snprintf(key, sizeof key, "%s.rope.scaling.type", name[i][1]);
            if (g) CHECK_OK(gguf_get_str(g, key, &type, &e));
            CHECK_EQ_STR(type, scaled ? "linear" : "none");
            snprintf(key, sizeof key, "%s.rope.scaling.factor", name[i][1]);
            if (g && scaled) CHECK(number(g, key, 0) == 4);
            gguf_close(g);
        }
}

static void count_lines(void *ud, enum log_level level, const char *text) {
    if (level == LOG_WARN && strstr(text, "window")) ++*(int *)ud;
}

/* Checks layer_types of a model whose layers usually all have a window: with none, no key; with
 * every second, the period and a warning. */
static void test_windows(void) {
#define SLIDES "\"sliding_attention\", "
#define FULL "\"full_attention\""
#define TYPES(list)                                                                                \
    { "\"sliding_window\": 16", "\"sliding_window\": 16, \"layer_types\": [" list "]" }
    static const struct {
        const char *edit[3];
        double window, period;
        int n_warnings;
    } row[] = {{TYPES(SLIDES SLIDES SLIDES "\"sliding_attention\""), 16, -1, 0},
               {TYPES(FULL ", " FULL ", " FULL ", " FULL), -1, -1, 0},
               {TYPES(SLIDES FULL ", " SLIDES FULL), 16, 2, 1}};
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        int n = 0;
        log_set_level(LOG_WARN);
        log_set_sink(count_lines, &n);
        struct gguf *g = convert("mistralwin", row[i].edit);
        log_set_sink(NULL, NULL);
        log_set_level(LOG_ERROR);
        CHECK_EQ_I64(n, row[i].n_warnings);
        CHECK(number(g, "llama.attention.sliding_window", 0) == row[i].window);
        CHECK(number(g, "llama.attention.sliding_window_pattern", 0) == row[i].period);
        gguf_close(g);
    }
}

/* Checks that a model whose tokens see later ones gets the key, and is not run. */
static void test_not_causal(void) {
    static const char *const edit[] = {"\"vocab_size\": 1024",
                                       "\"is_causal\": false, \"vocab_size\": 1024", NULL};
    struct err e = {0};
    bool runs = true;
    const char *draft = NULL;
    struct gguf *g = convert("olmo2", edit);
    if (!g) return;
    CHECK(!gguf_bool_or(g, "olmo2.attention.causal", true));
    CHECK_ERR(model_computes(g, &e), ERR_DATA, "olmo2.attention.causal is false");
    CHECK_OK(convert_known(micro_folder("tests/golden/archs/olmo2", edit), &runs, &draft, &e));
    CHECK(!runs);
    gguf_close(g);
    g = convert("olmo2", NULL);
    CHECK(g && !gguf_find(g, "olmo2.attention.causal") && model_computes(g, &e) == 0);
    gguf_close(g);
}

int main(void) {
    tmp_make();
    log_set_level(LOG_ERROR);
    RUN(test_keys);
    RUN(test_yarn);
    RUN(test_no_caps);
    RUN(test_scaling);
    RUN(test_windows);
    RUN(test_not_causal);
    tmp_remove();
    return check_done();
}
