// SPDX-License-Identifier: MIT
/* tests/unit/test_lib_handles.c - the handles of include/hone.h: their results equal those of the
 * internal functions or of a command for the same file; errors name file and tensor; two models run
 * in two threads; another thread can cancel. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "containers/gguf.h"
#include "include/hone.h"
#include "tests/command.h"
#include "tests/unit/lib_check.h"
#include "tests/unit/tmpdir.h"

static const char tiny[] = "tests/golden/tiny-qwen35moe";
static const char *base;

static void make_base(void) {
    struct result r;
    static char path[256];
    snprintf(path, sizeof path, "%s", tmp_path("base.gguf"));
    base = path;
    const char *args[] = {tiny, "-o", base, "--type", "bf16", "-q", NULL};
    if (command("convert", args, NULL, &r)) CHECK_FAIL("%s", r.message);
    result_free(&r);
}

/* ---- reading ---- */

static void test_gguf(void) {
    struct hone_error e;
    struct hone_gguf *g;
    struct gguf *core;
    struct err err;
    OK(hone_gguf_open(&g, base, NULL, &e));
    CHECK(gguf_open(&core, base, 0, &err) == 0);
    CHECK_EQ_I64(hone_gguf_n_keys(g), gguf_n_kv(core));
    CHECK_EQ_I64(hone_gguf_n_tensors(g), gguf_n_tensors(core));
    struct hone_key k = {.size = sizeof k};
    OK(hone_gguf_find_key(g, "tokenizer.ggml.tokens", &k, &e));
    CHECK(k.type == HONE_ARRAY && k.elem == HONE_TEXT && k.count > 1000);
    uint64_t at = 0, n = 0;
    const char *s;
    size_t len;
    const struct gguf_kv *kv = gguf_find(core, "tokenizer.ggml.tokens");
    const uint8_t *pos = kv->data;
    while (hone_key_next_text(&k, &at, &s, &len)) {
        const char *want;
        uint64_t want_len;
        gguf_kv_str_next(kv, &pos, &want, &want_len);
        if (len != want_len || memcmp(s, want, len) != 0) CHECK_FAIL("token %d", (int)n);
        n++;
    }
    CHECK_EQ_I64(n, k.count);
    CHECK_EQ_STR(hone_gguf_text(g, "general.architecture", ""), "qwen35moe");
    OK(hone_gguf_find_key(g, "general.architecture", &k, &e));
    at = 0;
    CHECK(hone_key_next_text(&k, &at, &s, &len) && len == 9 && memcmp(s, "qwen35moe", 9) == 0);
    CHECK(!hone_key_next_text(&k, &at, &s, &len));
    CHECK_EQ_I64(hone_gguf_int(g, "qwen35moe.block_count", -1),
                 (int64_t)gguf_u64_or(core, "qwen35moe.block_count", 0));
    CHECK_EQ_I64(hone_gguf_int(g, "general.architecture", -7), -7);
    CHECK_CLOSE(hone_gguf_float(g, "qwen35moe.attention.layer_norm_rms_epsilon", 0),
                gguf_f64_or(core, "qwen35moe.attention.layer_norm_rms_epsilon", 1), 0);
    struct hone_tensor t = {.size = sizeof t};
    OK(hone_gguf_find_tensor(g, "token_embd.weight", &t, &e));
    float *rows = malloc((size_t)t.ne[0] * 3 * sizeof *rows);
    OK(hone_tensor_read(&t, 5, 3, rows, &e));
    for (int64_t i = 0; i < 3 * t.ne[0]; i++) { /* bf16: the upper half of an f32 */
        uint16_t half;
        memcpy(&half, (const char *)t.data + 2 * (5 * t.ne[0] + i), 2);
        uint32_t bits = (uint32_t)half << 16;
        if (memcmp(&bits, &rows[i], 4) != 0) CHECK_FAIL("element %d", (int)i);
    }
    OK(hone_gguf_check(g, &t, &e));
    NOT(hone_tensor_read(&t, t.ne[1], 1, rows, &e), HONE_USAGE, "token_embd.weight");
    CHECK_EQ_STR(e.tensor, "token_embd.weight");
    NOT(hone_gguf_find_tensor(g, "absent", &t, &e), HONE_USAGE, "absent");
    CHECK_EQ_STR(e.file, base);
    k.size = 0;
    NOT(hone_gguf_key(g, 0, &k, &e), HONE_USAGE, "hone_key.size");
    k.size = offsetof(struct hone_key, elem); /* an older version's struct */
    k.elem = 77;
    OK(hone_gguf_key(g, 0, &k, &e));
    CHECK(k.elem == 77 && k.name[0]);
    free(rows);
    gguf_close(core);
    hone_gguf_close(g);
    NOT(hone_gguf_open(&g, tmp_path("absent"), NULL, &e), HONE_USAGE, "absent");
    CHECK(!g && strstr(e.file, "absent"));
    NOT(hone_gguf_open(&g, "VERSION", NULL, &e), HONE_DATA, "VERSION");
    CHECK_EQ_STR(hone_status_name(e.status), "data");
}

/* ---- writing and reading back ---- */

static void test_writer(void) {
    struct hone_error e;
    struct hone_writer *w;
    struct hone_gguf *g;
    const char *path = tmp_path("own.gguf");
    float x[6] = {1, 2, 3, 4, 5, 6};
    const char *texts[] = {"a", "bc"};
    const int64_t ne[] = {3, 2};
    OK(hone_writer_new(&w, NULL, &e));
    OK(hone_writer_text(w, "general.architecture", "own", 3, &e));
    OK(hone_writer_int(w, "own.n", HONE_U16, 65535, &e));
    OK(hone_writer_int(w, "own.i8", HONE_I8, -128, &e));
    OK(hone_writer_int(w, "own.i16", HONE_I16, -300, &e));
    OK(hone_writer_int(w, "own.i64", HONE_I64, INT64_MIN, &e));
    OK(hone_writer_int(w, "own.u64", HONE_U64, -2, &e)); /* 2^64 - 2 */
    NOT(hone_writer_int(w, "own.n", HONE_U16, 65536, &e), HONE_USAGE, "65536");
    NOT(hone_writer_int(w, "own.n", HONE_F32, 1, &e), HONE_USAGE, "f32");
    OK(hone_writer_float(w, "own.f", 0.5, &e));
    OK(hone_writer_texts(w, "own.texts", texts, 2, &e));
    OK(hone_writer_array(w, "own.list", HONE_F32, x, 6, &e));
    OK(hone_writer_tensor(w, "t", QT_F32, 2, ne, &e));
    NOT(hone_writer_tensor(w, "t", QT_F32, 2, ne, &e), HONE_DATA, "twice");
    CHECK_EQ_STR(e.tensor, "t");
    OK(hone_writer_begin(w, path, 0, &e));
    OK(hone_writer_data(w, x, 8, &e));
    CHECK(hone_writer_commit(w, &e) != HONE_OK); /* 16 bytes are missing */
    hone_writer_free(w);
    CHECK(access(path, F_OK) != 0);
    struct hone_gguf *from;
    OK(hone_gguf_open(&from, base, NULL, &e));
    OK(hone_writer_new(&w, NULL, &e));
    OK(hone_writer_copy_keys(w, from, NULL, &e));
    OK(hone_writer_remove(w, "general.name", &e));
    OK(hone_writer_int(w, "own.n", HONE_I32, -5, &e));
    OK(hone_writer_tensor(w, "t", QT_F32, 2, ne, &e));
    OK(hone_writer_begin(w, path, 0, &e));
    OK(hone_writer_data(w, x, sizeof x, &e));
    OK(hone_writer_commit(w, &e));
    hone_writer_free(w);
    OK(hone_gguf_open(&g, path, NULL, &e));
    CHECK_EQ_I64(hone_gguf_int(g, "own.n", 0), -5);
    CHECK_EQ_I64(hone_gguf_n_keys(g),
                 hone_gguf_n_keys(from) + 1 - !!hone_gguf_text(from, "general.name", NULL));
    struct hone_tensor t = {.size = sizeof t};
    OK(hone_gguf_tensor(g, 0, &t, &e));
    CHECK(memcmp(t.data, x, sizeof x) == 0);
    hone_gguf_close(g);
    hone_gguf_close(from);
}

/* ---- text ---- */

/* Checks that an answer is read as the continuation of the template's prompts. */
static void test_answers(void) {
#define TALK "{% for m in messages %}<{{ m.content }}>{% endfor %}"
#define THINK "{% if add_generation_prompt %}<think>{% endif %}"
    static const char *const rows[][3] = {
        {TALK "{% if add_generation_prompt %}\n>>>{% endif %}{# recipient #}",
         "find\n{\"path\": \"/\"}", "[{\"name\": \"find\", \"arguments\": {\"path\": \"/\"}}]"},
        {"{{ bos_token + '' }}" TALK
         "{% if add_generation_prompt %}\n>>>{% endif %}{# recipient #}",
         "all\nHello", "{\"content\": \"Hello\""},
        {TALK THINK, "Hello", "\"reasoning\": \"Hello\""},
        {TALK "{% if enable_thinking | default(true) %}" THINK "{% endif %}", "Hello",
         "{\"content\": \"Hello\""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct hone_error e;
        struct hone_template *m;
        char *text;
        OK(hone_template_new(&m, rows[i][0], strlen(rows[i][0]), NULL, NULL, NULL, &e));
        OK(hone_template_read_answer(m, NULL, rows[i][1], strlen(rows[i][1]), &text, &e));
        if (!strstr(text, rows[i][2])) CHECK_FAIL("%s is read as %s", rows[i][1], text);
        hone_free(text);
        hone_template_free(m);
    }
}

static void test_text(void) {
    struct hone_error e;
    struct hone_tokenizer *t, *folder, *memory;
    struct hone_template *m;
    struct hone_gguf *g;
    int32_t *ids, *again;
    int64_t n, n_again;
    char *text;
    const char say[] = "Once upon a time, 12 cats\n";
    OK(hone_gguf_open(&g, base, NULL, &e));
    OK(hone_tokenizer_open(&t, base, NULL, &e));
    OK(hone_tokenizer_open(&folder, tiny, NULL, &e));
    OK(hone_tokenizer_from_gguf(&memory, g, &e));
    OK(hone_tokenize(t, say, strlen(say), 0, &ids, &n, &e));
    CHECK(n > 3);
    const struct hone_tokenizer *others[] = {folder, memory};
    for (int i = 0; i < 2; i++) {
        OK(hone_tokenize(others[i], say, strlen(say), 0, &again, &n_again, &e));
        CHECK(n == n_again && memcmp(ids, again, (size_t)n * sizeof *ids) == 0);
        hone_free(again);
    }
    OK(hone_detokenize(t, ids, n, 0, &text, NULL, &e));
    CHECK_EQ_STR(text, say);
    hone_free(text);
    ids[0] = (int32_t)hone_n_vocab(t);
    NOT(hone_detokenize(t, ids, n, 0, &text, NULL, &e), HONE_USAGE, "there is no token");
    hone_free(ids);
    const int32_t eos = hone_token_special(t, HONE_TOKEN_EOS);
    CHECK(eos >= 0 && hone_token_ends(t, eos) && !hone_token_ends(t, 0));
    CHECK_EQ_I64(hone_token_find(t, hone_token_text(t, eos, NULL)), eos);

    OK(hone_template_from_gguf(&m, g, &e));
    OK(hone_template_render(m, "[{\"role\":\"user\",\"content\":\"Hi\"}]", NULL, 1, &text, NULL,
                            &e));
    CHECK(strstr(text, "Hi") && strstr(text, "assistant"));
    OK(hone_tokenize(t, text, strlen(text), HONE_CONTROL, &again, &n_again, &e));
    OK(hone_template_tokens(m, t, "[{\"role\":\"user\",\"content\":\"Hi\"}]", NULL, 1, &ids, &n,
                            &e));
    CHECK(n == n_again && memcmp(ids, again, (size_t)n * sizeof *ids) == 0);
    hone_free(text);
    hone_free(ids);
    hone_free(again);
    NOT(hone_template_render(m, "[{", NULL, 1, &text, NULL, &e), HONE_DATA, "");
    const char called[] = "Sure.<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n"
                          "</function>\n</tool_call>";
    OK(hone_template_read_answer(m, NULL, called, strlen(called), &text, &e));
    CHECK(strstr(text, "\"name\"") && strstr(text, "add") && strstr(text, "Sure."));
    hone_free(text);
    hone_template_free(m);
    const char mine[] = "{{ bos_token }}{% for m in messages %}<{{ m.content }}>{% endfor %}";
    OK(hone_template_new(&m, mine, strlen(mine), "B", NULL, NULL, &e));
    OK(hone_template_render(m, "[{\"role\":\"user\",\"content\":\"x\"}]", NULL, 0, &text, NULL,
                            &e));
    CHECK_EQ_STR(text, "B<x>");
    CHECK_EQ_STR(hone_template_text(m), mine);
    hone_free(text);
    hone_template_free(m);
    NOT(hone_template_new(&m, "{% if", 5, NULL, NULL, NULL, &e), HONE_DATA, "template:1");
    hone_tokenizer_close(t);
    hone_tokenizer_close(folder);
    hone_tokenizer_close(memory);
    hone_gguf_close(g);
}

/* ---- computing ---- */

struct machine { /* a model, open */
    struct hone_model *m;
    const struct hone_tokenizer *t;
    struct hone_session *s;
    struct hone_model_info info;
};

static void machine_open(struct machine *x, const char *path, int exact, int n_threads,
                         const struct hone_opts *o) {
    struct hone_error e;
    struct hone_opts own = {.size = sizeof own};
    if (o) own = *o;
    own.n_threads = n_threads;
    const struct hone_session_opts so = {.size = sizeof so, .n_ctx = 256, .exact = exact};
    memset(x, 0, sizeof *x);
    x->info.size = sizeof x->info;
    OK(hone_model_open(&x->m, path, &own, &e));
    OK(hone_model_info(x->m, &x->info, &e));
    OK(hone_model_tokenizer(x->m, &x->t, &e));
    OK(hone_session_new(&x->s, x->m, &so, &own, &e));
}

static void machine_close(struct machine *x) {
    hone_session_free(x->s);
    hone_model_close(x->m);
}

static int32_t largest(const float *v, int64_t n) {
    int32_t at = 0;
    for (int64_t i = 1; i < n; i++)
        if (v[i] > v[at]) at = (int32_t)i;
    return at;
}

static void test_session(void) {
    struct hone_error e;
    struct machine x;
    int32_t *ids;
    int64_t n;
    machine_open(&x, base, 1, 2, NULL);
    CHECK_EQ_STR(x.info.arch, "qwen35moe");
    CHECK(x.info.n_vocab > 1000 && x.info.n_weights > 1000000 && x.info.n_layers > 1);
    OK(hone_tokenize(x.t, "Once upon a time there was", 26, 0, &ids, &n, &e));
    float *all = malloc((size_t)(n * x.info.n_vocab) * sizeof *all);
    float *one = malloc((size_t)(2 * x.info.n_vocab) * sizeof *one);
    const size_t row = (size_t)x.info.n_vocab * sizeof *one;
    OK(hone_session_logits(x.s, NULL, ids, n, all, &e));
    struct hone_seq *a, *b;
    OK(hone_seq_new(&a, x.s, &e));
    OK(hone_session_feed(x.s, a, ids, n - 2, one, &e));
    CHECK(memcmp(one, all + (n - 3) * x.info.n_vocab, row) == 0);
    OK(hone_seq_fork(&b, a, &e));
    const struct hone_row rows[] = {{a, ids[n - 2], 0}, {b, ids[n - 2], 1}, {a, ids[n - 1], 1}};
    OK(hone_session_run(x.s, rows, 3, one, &e));
    CHECK(memcmp(one, all + (n - 2) * x.info.n_vocab, row) == 0);
    CHECK(memcmp(one + x.info.n_vocab, all + (n - 1) * x.info.n_vocab, row) == 0);
    CHECK_EQ_I64(hone_seq_n_tokens(a), n);
    CHECK_EQ_I64(hone_seq_n_tokens(b), n - 1);
    const char *path = tmp_path("a.seq");
    OK(hone_seq_save(x.s, b, path, 0, &e));
    OK(hone_seq_trim(a, 0, &e));
    OK(hone_seq_load(x.s, a, path, &e));
    OK(hone_session_feed(x.s, a, ids + n - 1, 1, one, &e));
    CHECK(memcmp(one, all + (n - 1) * x.info.n_vocab, row) == 0);
    ids[0] = (int32_t)x.info.n_vocab;
    CHECK_EQ_I64(hone_session_feed(x.s, a, ids, 1, one, &e), HONE_USAGE);
    CHECK_EQ_I64(hone_session_feed(x.s, a, ids, 0, one, &e), HONE_USAGE);
    hone_seq_free(a);
    hone_seq_free(b);
    free(all);
    free(one);
    hone_free(ids);
    machine_close(&x);
}

struct told {
    char text[4][400];
    int n, end_at;
};
static int take_text(void *user, int64_t which, const char *text, size_t len) {
    struct told *t = user;
    strncat(t->text[which], text, len);
    return ++t->n == t->end_at;
}

/* Checks that a token that a folder lists as an end ends answers; this model repeats the last token
 * of its prompt. */
static void test_ends(void) {
    enum { I = 72 }; /* "i" */
    static const char list[] = "{\"eos_token_id\": [1012, 72]}";
    struct hone_error e;
    char cmd[256];
    snprintf(cmd, sizeof cmd, "cp -r tests/golden/models/qwen3 '%s'", tmp_path("ends"));
    CHECK(system(cmd) == 0);
    for (int k = 0; k < 2; k++) {
        struct result r;
        struct machine x;
        const int32_t prompt[] = {I};
        char file[256];
        snprintf(file, sizeof file, "%s", tmp_path("ends.gguf"));
        if (k) tmp_write("ends/generation_config.json", list, sizeof list - 1);
        const char *args[] = {tmp_path("ends"), "-o", file, "-f", "-q", NULL};
        if (command("convert", args, NULL, &r)) CHECK_FAIL("%s", r.message);
        result_free(&r);
        machine_open(&x, file, 0, 1, NULL);
        struct hone_generate_opts o = {.size = sizeof o, .max_tokens = 4};
        struct hone_answer a = {.size = sizeof a};
        OK(hone_generate(x.s, prompt, 1, &o, &a, &e));
        CHECK_EQ_STR(a.text, k ? "" : "iiii");
        CHECK_EQ_STR(a.stop, k ? "end" : "length");
        hone_answer_free(&a);
        machine_close(&x);
    }
}

static void test_generate(void) {
    struct hone_error e;
    struct machine x;
    static const char *const prompts[] = {"Once upon a time", "The cat", "One day", "A"};
    int32_t *ids[4];
    int64_t n[4];
    machine_open(&x, base, 0, 2, NULL);
    struct told told = {0};
    struct hone_generate_opts o = {
        .size = sizeof o, .max_tokens = 12, .text = take_text, .user = &told};
    struct hone_answer many[4], a = {.size = sizeof a};
    for (int i = 0; i < 4; i++) {
        OK(hone_tokenize(x.t, prompts[i], strlen(prompts[i]), 0, &ids[i], &n[i], &e));
        many[i] = (struct hone_answer){.size = sizeof many[i]};
    }
    const int32_t *const list[] = {ids[0], ids[1], ids[2], ids[3]};
    OK(hone_generate_many(x.s, list, n, 4, 3, &o, many, &e));
    /* the obvious loop gives the same answer */
    float *logits = malloc((size_t)x.info.n_vocab * sizeof *logits);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ_STR(told.text[i], many[i].text);
        CHECK(many[i].n_ids == 12 || strcmp(many[i].stop, "end") == 0);
        OK(hone_session_reset(x.s, &e));
        OK(hone_session_feed(x.s, NULL, ids[i], n[i], logits, &e));
        for (int64_t k = 0; k < many[i].n_ids; k++) {
            const int32_t id = largest(logits, x.info.n_vocab);
            CHECK_EQ_I64(id, many[i].ids[k]);
            OK(hone_session_feed(x.s, NULL, &id, 1, logits, &e));
        }
        o.text = NULL;
        OK(hone_generate(x.s, ids[i], n[i], &o, &a, &e));
        CHECK_EQ_STR(a.text, many[i].text);
        CHECK_EQ_STR(a.stop, many[i].stop);
        CHECK_EQ_I64(a.n_prompt, n[i]);
        hone_answer_free(&a);
    }
    free(logits);
    /* sampled: the same seed gives the same answers, alone or not; a different seed gives different
     * ones */
    o = (struct hone_generate_opts){
        .size = sizeof o, .max_tokens = 12, .temperature = 1.5, .seed = 7};
    for (int i = 0; i < 4; i++) hone_answer_free(&many[i]);
    OK(hone_generate_many(x.s, list, n, 4, 4, &o, many, &e));
    OK(hone_generate(x.s, ids[2], n[2], &o, &a, &e));
    CHECK_EQ_STR(a.text, many[2].text);
    hone_answer_free(&a);
    o.seed = 8;
    OK(hone_generate(x.s, ids[2], n[2], &o, &a, &e));
    CHECK(strcmp(a.text, many[2].text) != 0);
    hone_answer_free(&a);
    /* a callback or a stop text ends an answer; grammars are obeyed */
    told = (struct told){.end_at = 3};
    o = (struct hone_generate_opts){
        .size = sizeof o, .max_tokens = 40, .text = take_text, .user = &told};
    OK(hone_generate(x.s, ids[0], n[0], &o, &a, &e));
    CHECK_EQ_STR(a.stop, "callback");
    CHECK_EQ_I64(told.n, 3);
    hone_answer_free(&a);
    o = (struct hone_generate_opts){.size = sizeof o, .max_tokens = 40, .regex = "(yes|no)"};
    OK(hone_generate(x.s, ids[0], n[0], &o, &a, &e));
    CHECK(strcmp(a.text, "yes") == 0 || strcmp(a.text, "no") == 0);
    hone_answer_free(&a);
    o.regex = "(";
    CHECK(hone_generate(x.s, ids[0], n[0], &o, &a, &e) != HONE_OK && e.message[0]);
    o.schema = "{\"type\": \"boolean\"}";
    NOT(hone_generate(x.s, ids[0], n[0], &o, &a, &e), HONE_USAGE, "not several");
    const char *const choice[] = {"blue whale", "red", NULL};
    o = (struct hone_generate_opts){.size = sizeof o, .max_tokens = 40, .choices = choice};
    OK(hone_generate(x.s, ids[0], n[0], &o, &a, &e));
    CHECK(strcmp(a.text, choice[0]) == 0 || strcmp(a.text, choice[1]) == 0);
    hone_answer_free(&a);
    o = (struct hone_generate_opts){
        .size = sizeof o, .max_tokens = 40, .grammar = "root ::= [ab]{3} \"!\""};
    OK(hone_generate(x.s, ids[0], n[0], &o, &a, &e));
    CHECK(a.len == 4 && strspn(a.text, "ab") == 3 && a.text[3] == '!');
    hone_answer_free(&a);
    struct hone_answer one = {.size = sizeof one};
    NOT(hone_generate_many(x.s, list, n, 1, 0, &o, &one, &e), HONE_USAGE,
        "hone_generate_many supports");
    /* a penalty that forbids all tokens that have occurred: no token repeats */
    o = (struct hone_generate_opts){
        .size = sizeof o, .max_tokens = 30, .presence_penalty = 1e6, .repeat_last_n = 1000};
    OK(hone_generate(x.s, ids[0], n[0], &o, &a, &e));
    for (int64_t i = 0; i < a.n_ids; i++)
        for (int64_t k = 0; k < i; k++) CHECK(a.ids[i] != a.ids[k]);
    hone_answer_free(&a);
    o = (struct hone_generate_opts){.size = sizeof o, .temperature = -1};
    NOT(hone_generate(x.s, ids[0], n[0], &o, &a, &e), HONE_USAGE, "negative");
    for (int i = 0; i < 4; i++) {
        hone_answer_free(&many[i]);
        hone_free(ids[i]);
    }
    machine_close(&x);
}

/* ---- measuring and quantizing: against the commands ---- */

#define NINE_DIGITS 1e-8 /* numbers in JSON have nine digits */

static double member(const char *json, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(json, key);
    return at ? atof(at + strlen(key)) : (double)NAN;
}

static void test_measure(void) {
    struct hone_error e;
    struct result r;
    struct machine x, y;
    struct hone_quantizer *q;
    const char *small = tmp_path("small.gguf"), *same = tmp_path("same.gguf");
    const struct hone_quantize_opts qo = {.size = sizeof qo, .recipe = "Q4_K_M"};
    struct hone_quantize_report rep = {.size = sizeof rep};
    OK(hone_quantizer_new(&q, NULL, &e));
    OK(hone_quantizer_file(q, base, small, &qo, &rep, &e));
    CHECK(rep.n_quantized > 5 && rep.bits_per_weight > 4 && rep.bits_per_weight < 8);
    const char *args[] = {base, "-o", same, "--recipe", "Q4_K_M", "-q", NULL};
    CHECK_EQ_I64(command("quantize", args, NULL, &r), HONE_OK);
    result_free(&r);
    /* separately encoded rows equal the bytes of the file */
    struct hone_gguf *g, *f;
    struct hone_tensor from = {.size = sizeof from}, to = {.size = sizeof to},
                       cmd = {.size = sizeof cmd};
    struct hone_type k = {.size = sizeof k};
    OK(hone_gguf_open(&g, base, NULL, &e));
    OK(hone_gguf_open(&f, same, NULL, &e));
    for (int64_t i = 0; i < hone_gguf_n_tensors(f); i++) {
        struct hone_gguf *s;
        OK(hone_gguf_tensor(f, i, &cmd, &e));
        OK(hone_gguf_find_tensor(g, cmd.name, &from, &e));
        if (i == 0) {
            OK(hone_gguf_open(&s, small, NULL, &e));
            OK(hone_gguf_find_tensor(s, cmd.name, &to, &e));
            CHECK(to.n_bytes == cmd.n_bytes && !memcmp(to.data, cmd.data, cmd.n_bytes));
            hone_gguf_close(s);
        }
        OK(hone_type_by_id(cmd.type, &k, &e));
        if (cmd.type == from.type || cmd.n_dims != 2) continue;
        float *x32 = malloc((size_t)(from.ne[0] * from.ne[1]) * sizeof *x32);
        void *blocks = malloc(cmd.n_bytes);
        OK(hone_tensor_read(&from, 0, from.ne[1], x32, &e));
        OK(hone_quantizer_rows(q, cmd.type, x32, from.ne[1], from.ne[0], NULL, blocks, &e));
        if (memcmp(blocks, cmd.data, cmd.n_bytes) != 0) CHECK_FAIL("tensor %s", cmd.name);
        x32[3] = NAN;
        NOT(hone_quantizer_rows(q, cmd.type, x32, from.ne[1], from.ne[0], NULL, blocks, &e),
            HONE_DATA, "NaN");
        free(blocks);
        free(x32);
    }
    hone_gguf_close(g);
    hone_gguf_close(f);
    const char *twice = tmp_path("twice.gguf");
    const struct hone_quantize_opts again = {
        .size = sizeof again, .recipe = "Q2_K", .requantize = 1};
    NOT(hone_quantizer_file(q, small, twice, &qo, NULL, &e), HONE_USAGE, "is already quantized as");
    CHECK(access(twice, F_OK) != 0);
    OK(hone_quantizer_file(q, small, twice, &again, &rep, &e));
    CHECK(access(twice, F_OK) == 0 && rep.bits_per_weight < 4);
    hone_quantizer_free(q);

    /* the result of hone eval for the same tokens */
    FILE *text = fopen("tests/golden/tiny-qwen35moe/self_eval.txt", "rb");
    static char buf[200000];
    const size_t len = fread(buf, 1, sizeof buf, text);
    fclose(text);
    machine_open(&x, base, 1, 2, NULL);
    machine_open(&y, small, 1, 2, NULL);
    int32_t *ids;
    int64_t n;
    OK(hone_tokenize(x.t, buf, len, HONE_BOS | HONE_CONTROL, &ids, &n, &e));
    struct hone_perplexity p = {.size = sizeof p};
    OK(hone_perplexity(x.s, ids, n, 128, 3, &p, &e));
    CHECK_EQ_I64(p.n_windows, 3);
    const char *ppl[] = {"ppl",   base,  "tests/golden/tiny-qwen35moe/self_eval.txt",
                         "--ctx", "128", "--chunks",
                         "3",     "-q",  "--act",
                         "f32",   NULL};
    CHECK_EQ_I64(command("eval", ppl, NULL, &r), HONE_OK);
    CHECK_CLOSE(p.value, member(r.text, "ppl"), NINE_DIGITS * p.value);
    result_free(&r);
    struct hone_divergence d = {.size = sizeof d};
    OK(hone_divergence(x.s, y.s, ids, n, 128, 3, &d, &e));
    const char *kld[] = {"kld",    small,      "tests/golden/tiny-qwen35moe/self_eval.txt",
                         "--base", base,       "--ctx",
                         "128",    "--chunks", "3",
                         "-q",     NULL};
    CHECK_EQ_I64(command("eval", kld, NULL, &r), HONE_OK);
    CHECK_CLOSE(d.mean, member(r.text, "mean_kld"), 1e-9);
    CHECK_CLOSE(d.perplexity_base, member(r.text, "ppl_base"), NINE_DIGITS * p.value);
    result_free(&r);
    NOT(hone_perplexity(x.s, ids, n, 4096, 0, &p, &e), HONE_USAGE, "256");
    hone_free(ids);
    machine_close(&x);
    machine_close(&y);
}

/* ---- threads ---- */

struct worker {
    const char *path;
    char text[400];
    int n_progress;
};
static void *work(void *arg) {
    struct worker *w = arg;
    struct hone_error e;
    struct machine x;
    int32_t *ids;
    int64_t n;
    machine_open(&x, w->path, 0, 2, NULL);
    const struct hone_generate_opts o = {.size = sizeof o, .max_tokens = 20};
    struct hone_answer a = {.size = sizeof a};
    OK(hone_tokenize(x.t, "Once upon", 9, 0, &ids, &n, &e));
    OK(hone_generate(x.s, ids, n, &o, &a, &e));
    snprintf(w->text, sizeof w->text, "%s", a.text ? a.text : "");
    hone_answer_free(&a);
    hone_free(ids);
    machine_close(&x);
    return NULL;
}

static void test_two_models(void) {
    struct worker w[4] = {{.path = base}, {.path = tmp_path("small.gguf")}};
    pthread_t t[2];
    w[2].path = w[0].path;
    w[3].path = w[1].path;
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&t[i], NULL, work, &w[i]) == 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < 2; i++) {
        work(&w[i + 2]);
        CHECK(w[i].text[0]);
        CHECK_EQ_STR(w[i].text, w[i + 2].text);
    }
}

struct stopper {
    struct hone_cancel *c;
    atomic_int n;
};
static int stop_soon(void *user, int64_t which, const char *text, size_t len) {
    struct stopper *s = user;
    (void)which, (void)text, (void)len;
    atomic_fetch_add(&s->n, 1);
    return 0;
}
static void *press(void *arg) {
    struct stopper *s = arg;
    while (atomic_load(&s->n) < 2) usleep(100);
    hone_cancel_now(s->c);
    return NULL;
}

static void test_cancel(void) {
    struct hone_error e;
    struct stopper s = {.c = hone_cancel_new()};
    struct hone_opts o = {.size = sizeof o, .cancel = s.c};
    struct machine x;
    pthread_t t;
    int32_t *ids;
    int64_t n;
    machine_open(&x, base, 0, 1, &o);
    const struct hone_generate_opts go = {
        .size = sizeof go, .max_tokens = 200, .temperature = 3, .text = stop_soon, .user = &s};
    struct hone_answer a = {.size = sizeof a};
    OK(hone_tokenize(x.t, "Once upon", 9, 0, &ids, &n, &e));
    CHECK(pthread_create(&t, NULL, press, &s) == 0);
    NOT(hone_generate(x.s, ids, n, &go, &a, &e), HONE_CANCELLED, "interrupted");
    pthread_join(t, NULL);
    CHECK(a.n_ids >= 2 && a.n_ids < 200 && a.text[0]);
    hone_answer_free(&a);
    NOT(hone_generate(x.s, ids, n, &go, &a, &e), HONE_CANCELLED, ""); /* until it is reset */
    hone_answer_free(&a);
    hone_cancel_reset(s.c);
    const struct hone_generate_opts few = {.size = sizeof few, .max_tokens = 3};
    OK(hone_generate(x.s, ids, n, &few, &a, &e));
    hone_answer_free(&a);
    hone_free(ids);
    machine_close(&x);
    hone_cancel_free(s.c);
}

/* Cancels in the n-th call of the progress function, for increasing n: each time the call must end
 * there, report it and leave no files, and the handle must stay usable. */
struct at {
    int n, end;
};
static int end_at(void *user, const char *stage, uint64_t done, uint64_t total) {
    struct at *a = user;
    CHECK(stage[0] && (!total || done <= total));
    return ++a->n == a->end;
}
static void test_cancel_everywhere(void) {
    struct hone_error e;
    struct at a = {0};
    const struct hone_opts o = {.size = sizeof o, .progress = end_at, .user = &a};
    const struct hone_quantize_opts qo = {.size = sizeof qo, .recipe = "Q4_0"};
    struct hone_quantizer *q;
    const char *out = tmp_path("everywhere.gguf");
    int rc, n_cancelled = 0;
    OK(hone_quantizer_new(&q, &o, &e));
    do {
        a = (struct at){.end = a.end + 1 + a.end / 3};
        rc = hone_quantizer_file(q, base, out, &qo, NULL, &e);
        if (rc == HONE_OK) break;
        CHECK(rc == HONE_CANCELLED && a.n == a.end && e.message[0]);
        CHECK(access(out, F_OK) != 0);
        n_cancelled++;
    } while (rc == HONE_CANCELLED);
    OK(rc);
    CHECK(n_cancelled > 5 && access(out, F_OK) == 0);
    hone_quantizer_free(q);
}

/* Drafted tokens do not change the text, and a model without the block is refused. */
/* Tests callers' mistakes: NULL texts, nonsensical numbers, calls out of order. */
static void test_mistakes(void) {
    struct hone_error e;
    struct hone_gguf *g;
    struct hone_model *m;
    struct hone_type ty = {.size = sizeof ty};
    struct hone_writer *w;
    char *json;
    const int64_t ne[] = {4};
    const float four[4] = {0};
    const struct hone_generate_opts odd[] = {
        {.size = sizeof odd[0], .top_p = 1.5},
        {.size = sizeof odd[0], .min_p = 2},
        {.size = sizeof odd[0], .temperature = (double)NAN},
        {.size = sizeof odd[0], .presence_penalty = (double)NAN}};
    CHECK(hone_gguf_open(&g, NULL, NULL, &e) == HONE_USAGE && strstr(e.message, "path is NULL"));
    CHECK(hone_model_open(&m, NULL, NULL, &e) == HONE_USAGE);
    CHECK(hone_type_find(NULL, &ty, &e) == HONE_USAGE);
    CHECK(hone_plan(NULL, NULL, NULL, &json, &e) == HONE_USAGE);
    CHECK(hone_eval_ppl(base, NULL, NULL, NULL, &json, &e) == HONE_USAGE);
    CHECK(hone_template_lint(NULL, NULL, 0, NULL, &json, &e) == HONE_USAGE);
    hone_cancel_now(NULL);
    OK(hone_writer_new(&w, NULL, &e));
    CHECK(hone_writer_commit(w, &e) == HONE_USAGE);
    CHECK(hone_writer_array(w, "a", HONE_U8, NULL, UINT64_MAX, &e) == HONE_USAGE);
    OK(hone_writer_tensor(w, "t", 0, 1, ne, &e));
    OK(hone_writer_begin(w, tmp_path("mistake.gguf"), 1, &e));
    OK(hone_writer_data(w, four, 8, &e));
    CHECK(hone_writer_commit(w, &e) == HONE_USAGE && strstr(e.message, "8 of 16 bytes"));
    hone_writer_free(w);
    CHECK(access(tmp_path("mistake.gguf"), F_OK) != 0);
    OK(hone_model_open(&m, base, NULL, &e));
    struct hone_session *s;
    const struct hone_session_opts so = {.size = sizeof so, .n_ctx = 8};
    struct hone_answer a = {.size = sizeof a};
    const int32_t id = 5;
    OK(hone_session_new(&s, m, &so, NULL, &e));
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        CHECK(hone_generate(s, &id, 1, &odd[i], &a, &e) == HONE_USAGE);
    hone_session_free(s);
    hone_model_close(m);
}

static void test_draft(void) {
    struct hone_error e;
    struct machine x;
    const char *path = tmp_path("mtp.gguf");
    const struct hone_convert_opts co = {.size = sizeof co, .type = "f32"};
    OK(hone_convert("tests/golden/models/qwen35moe", path, &co, NULL, NULL, &e));
    struct hone_session *d = NULL;
    machine_open(&x, path, 1, 2, NULL);
    const struct hone_session_opts so = {.size = sizeof so, .exact = 1, .draft = "mtp"};
    OK(hone_session_new(&d, x.m, &so, NULL, &e));
    int32_t *ids;
    int64_t n;
    OK(hone_tokenize(x.t, "The value of", 12, 0, &ids, &n, &e));
    const struct hone_generate_opts o = {.size = sizeof o, .max_tokens = 60};
    for (int i = 0; i < 2 && d; i++) {
        struct hone_answer a = {.size = sizeof a}, b = a;
        OK(hone_generate(x.s, ids, n, &o, &a, &e));
        OK(hone_generate(d, ids, n, &o, &b, &e));
        CHECK_EQ_STR(b.text, a.text);
        hone_answer_free(&a);
        hone_answer_free(&b);
        OK(hone_session_feed(d, NULL, ids, n, NULL, &e)); /* and between them anything else */
    }
    hone_free(ids);
    hone_session_free(d);
    machine_close(&x);
    machine_open(&x, base, 0, 2, NULL);
    NOT(hone_session_new(&d, x.m, &so, NULL, &e), HONE_DATA, "MTP");
    machine_close(&x);
}

int main(void) {
    tmp_make();
    make_base();
    RUN(test_gguf);
    RUN(test_writer);
    RUN(test_text);
    RUN(test_answers);
    RUN(test_session);
    RUN(test_ends);
    RUN(test_generate);
    RUN(test_mistakes);
    RUN(test_draft);
    RUN(test_measure);
    RUN(test_two_models);
    RUN(test_cancel);
    RUN(test_cancel_everywhere);
    tmp_remove();
    return check_done();
}
