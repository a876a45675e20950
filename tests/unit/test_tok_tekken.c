// SPDX-License-Identifier: MIT
/* A folder with only tekken.json: ids equal mistral-common's (tests/oracle/tekken.py), before and
 * after the tokenizer is stored in a GGUF; damaged files are rejected. */
#include <sys/stat.h>
#include <unistd.h>

#include "convert/convert.h"
#include "containers/gguf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/progress.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"
#include "tok/tok.h"
#include "tok/tok_strs.h"

#define DIR "tests/golden/tekken"

static void same_ids(const struct tok *t, const char *what) {
    struct err e;
    struct json *want = NULL;
    struct strs cases = {0};
    char *text = NULL;
    size_t len = 0, used, n = 0;
    int wrong = 0;
    CHECK_OK(io_read_file(&text, &len, "tests/golden/models/tokens.json", 1 << 24, &e));
    const char *at = text ? strstr(text, "\"cases\":") : NULL;
    if (at) CHECK_OK(strs_parse(&cases, at + 8, len - (size_t)(at + 8 - text), &used, "cases", &e));
    CHECK_OK(json_read(&want, DIR "/ids.json", 1 << 24, &e));
    const struct json *w = json_first(json_get(want, "ids"));
    for (; w && n < cases.n; w = json_next(w), n++) {
        struct ids got = {0};
        CHECK_OK(tok_encode(t, cases.v[n], cases.len[n], false, false, &got, &e));
        bool same = got.n == json_len(w);
        int64_t i = 0;
        for (const struct json *k = json_first(w); same && k; k = json_next(k), i++)
            same = json_num(k, -1) == got.v[i];
        if (!same && !wrong++) CHECK_FAIL("%s: string %d has other ids", what, (int)n);
        ids_release(&got);
    }
    CHECK_EQ_I64(n, 331);
    CHECK_EQ_I64(wrong, 0);
    int64_t id = 0;
    for (const struct json *k = json_first(json_get(want, "special")); k; k = json_next(k), id++) {
        CHECK_EQ_STR(tok_text(t, id, &len), json_str(k));
        CHECK_EQ_I64(tok_type(t, id), TT_CONTROL);
    }
    strs_release(&cases);
    free(text);
    json_free(want);
}

static void test_ids_equal_mistral_common(void) {
    struct err e;
    struct tok *t = NULL;
    char *p = NULL;
    size_t n = 0;
    CHECK_OK(io_read_file(&p, &n, DIR "/tekken.json", 1 << 24, &e));
    CHECK_OK(tok_from_tekken(&t, p, n, 1024, &e));
    if (!t) return;
    same_ids(t, "tekken.json");
    CHECK_EQ_I64(tok_special(t, TS_BOS), 1);
    CHECK_EQ_I64(tok_special(t, TS_EOS), 2);
    CHECK_EQ_I64(tok_special(t, TS_UNK), 0);
    CHECK_EQ_I64(tok_special(t, TS_PAD), 11);
    CHECK(tok_add_bos(t) && !tok_add_eos(t));
    CHECK_EQ_STR(tok_pre(t), "tekken");
    tok_free(t);
    CHECK_ERR(tok_from_tekken(&t, p, n, 1000, &e), ERR_DATA, "another model");
    t = NULL;
    CHECK_OK(tok_from_tekken(&t, p, n, 0, &e)); /* the file's own size */
    if (t) CHECK_EQ_I64(tok_n_vocab(t), 1024);
    tok_free(t);
    const struct tok_files f = {.tekken = p, .tekken_len = n};
    CHECK_ERR(tok_from_files(&t, &f, 0, "qwen2", &e), ERR_USAGE, "leave --pre out");
    free(p);
}

/* Creates a copy of the golden Mistral folder with tokenizer.json replaced by tekken.json. */
static const char *folder(void) {
    static const char *const from[][2] = {{"tests/golden/models/mistral", "config.json"},
                                          {"tests/golden/models/mistral", "model.safetensors"},
                                          {DIR, "tekken.json"}};
    char *cwd = getcwd(NULL, 0), a[512], b[128];
    mkdir(tmp_path("hf"), 0700);
    for (size_t i = 0; i < COUNT_OF(from); i++) {
        snprintf(a, sizeof a, "%s/%s/%s", cwd, from[i][0], from[i][1]);
        snprintf(b, sizeof b, "hf/%s", from[i][1]);
        unlink(tmp_path(b));
        CHECK(!symlink(a, tmp_path(b)));
    }
    free(cwd);
    return tmp_path("hf");
}

static int convert(struct err *e) {
    struct convert_report r;
    struct convert_opts o = {.src = folder(), .out = tmp_path("out.gguf"), .overwrite = true};
    return convert_run(&o, &r, e);
}

static void test_through_a_gguf(void) {
    struct err e;
    struct gguf *g = NULL;
    struct tok *t = NULL;
    CHECK_OK(convert(&e));
    CHECK_OK(gguf_open(&g, tmp_path("out.gguf"), 0, &e));
    if (g) CHECK_OK(tok_from_gguf(&t, g, &e));
    if (t) same_ids(t, "GGUF");
    tok_free(t);
    gguf_close(g);
}

/* Checks the named templates of the folder's conversion; NULL: not checked. n: those listed. */
static void expect_templates(const char *main_text, const char *tools, const char *rag, int n) {
    const char *const want[][2] = {{"tokenizer.chat_template", main_text},
                                   {"tokenizer.chat_template.tool_use", tools},
                                   {"tokenizer.chat_template.rag", rag}};
    struct err e;
    struct gguf *g = NULL;
    CHECK_OK(convert(&e));
    CHECK_OK(gguf_open(&g, tmp_path("out.gguf"), 0, &e));
    if (!g) return;
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        const char *s = NULL;
        if (!want[i][1]) continue;
        CHECK_OK(gguf_get_str(g, want[i][0], &s, &e));
        CHECK_EQ_STR(s, want[i][1]);
    }
    const struct gguf_kv *kv = gguf_find(g, "tokenizer.chat_templates");
    CHECK(kv && kv->type == GV_ARR && kv->count == (uint64_t)n);
    gguf_close(g);
}

static void test_named_templates(void) {
    static const char main_text[] = "main", tools[] = "{# tools #}", rag[] = "{# rag #}";
    static const char list[] = "{\"chat_template\": [{\"name\": \"default\", \"template\": \"D\"}, "
                               "{\"name\": \"tool use\", \"template\": \"T\"}]}";
    static const char object[] = "{\"chat_template\": {\"default\": \"D2\", \"tool use\": \"T2\"}}";
    static const char others[] = "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"R\"}, "
                                 "{\"name\": \"tool_use\", \"template\": \"T\"}]}";
    folder();
    tmp_write("hf/chat_template.jinja", main_text, sizeof main_text - 1);
    mkdir(tmp_path("hf/additional_chat_templates"), 0700);
    tmp_write("hf/additional_chat_templates/tool_use.jinja", tools, sizeof tools - 1);
    tmp_write("hf/additional_chat_templates/rag.jinja", rag, sizeof rag - 1);
    expect_templates(main_text, tools, rag, 2);
    /* the list form, which files with the same names override, as in transformers */
    unlink(tmp_path("hf/chat_template.jinja"));
    tmp_write("hf/tokenizer_config.json", list, sizeof list - 1);
    expect_templates(NULL, tools, rag, 2);
    unlink(tmp_path("hf/additional_chat_templates/tool_use.jinja"));
    unlink(tmp_path("hf/additional_chat_templates/rag.jinja"));
    expect_templates("D", "T", NULL, 1);
    /* an object in place of the list */
    tmp_write("hf/tokenizer_config.json", object, sizeof object - 1);
    expect_templates("D2", "T2", NULL, 1);
    /* without a default */
    tmp_write("hf/tokenizer_config.json", others, sizeof others - 1);
    expect_templates("T", NULL, "R", 2);
}

static void test_damage_is_refused(void) {
    static const char *const edit[][3] = {
        {"\"AA==\"", "\"AB==!\"", "base64"},
        {"\"AQ==\"", "\"Ag==\"", "byte of its rank"},
        {"\"rank\": 300,", "\"rank\": 301,", "order of their ranks"},
        {"\"default_vocab_size\": 1024", "\"default_vocab_size\": 1023999", "belongs to another"},
        {"\"default_vocab_size\": 1024", "\"default_vocab_size\": -4",
         "no valid default_vocab_size"},
    };
    struct err e = {0};
    char *p = NULL;
    size_t n = 0;
    CHECK_OK(io_read_file(&p, &n, DIR "/tekken.json", 1 << 24, &e));
    for (size_t i = 0; p && i < COUNT_OF(edit); i++) {
        char *at = strstr(p, edit[i][0]);
        struct buf b = {0};
        struct tok *t = NULL;
        CHECK(at != NULL);
        if (!at) continue;
        buf_add(&b, p, (size_t)(at - p));
        buf_str(&b, edit[i][1]);
        buf_str(&b, at + strlen(edit[i][0]));
        CHECK_ERR(tok_from_tekken(&t, (const char *)b.data, b.len, 1024, &e), ERR_DATA, edit[i][2]);
        buf_release(&b);
    }
    free(p);
}

int main(void) {
    tmp_make();
    progress_set_mode(PROG_NEVER);
    log_set_level(LOG_ERROR);
    RUN(test_ids_equal_mistral_common);
    RUN(test_through_a_gguf);
    RUN(test_named_templates);
    RUN(test_damage_is_refused);
    tmp_remove();
    return check_done();
}
