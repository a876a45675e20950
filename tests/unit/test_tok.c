// SPDX-License-Identifier: MIT
/* tests/unit/test_tok.c - encoding and decoding against ids recorded from the Hugging Face
 * tokenizers library (tests/golden/models/tokens.json), built from tokenizer.json and from GGUF
 * keys. */
#include "tests/unit/test_tok_common.h"

#include <pthread.h>
#include <time.h>

#include "text/utf8.h"
#include "base/io.h"

enum { N_CASES = 331 };
static struct strs cases;
static const char *golden;

static void load(void) {
    struct err e = {0};
    char *text = NULL;
    size_t len, used;
    CHECK_OK(io_read_file(&text, &len, MODELS "tokens.json", 1 << 26, &e));
    golden = text;
    const char *at = strstr(text, "\"cases\":");
    CHECK(at != NULL);
    if (at) CHECK_OK(strs_parse(&cases, at + 8, len - (size_t)(at + 8 - text), &used, "cases", &e));
    CHECK_EQ_I64(cases.n, N_CASES);
}

/* The recorded ids of a model, one list after the other: counts, then ids by strtol. */
static const char *ids_of(const char *model) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\":", model);
    const char *at = strstr(golden, "\"ids\":");
    at = at ? strstr(at, key) : NULL;
    CHECK(at != NULL);
    return at ? strchr(at, '[') + 1 : NULL;
}

static bool same_ids(const struct ids *got, const char **at) {
    bool same = true;
    int64_t n = 0;
    char *end;
    *at = strchr(*at, '[') + 1;
    for (;;) {
        while (**at == ',' || **at == ' ' || **at == '\n') ++*at;
        if (**at == ']') break;
        long id = strtol(*at, &end, 10);
        *at = end;
        same = same && n < got->n && got->v[n] == id;
        n++;
    }
    ++*at;
    return same && n == got->n;
}

static bool decodes_to(const struct tok *t, const struct ids *ids, const char *s, size_t n,
                       bool nfc) {
    struct buf got = {0}, want = {0};
    for (int64_t i = 0; i < ids->n; i++) tok_decode(t, ids->v[i], true, &got);
    if (nfc)
        utf8_nfc(&want, s, n);
    else
        buf_add(&want, s, n);
    bool same = got.len == want.len && (got.len == 0 || memcmp(got.data, want.data, got.len) == 0);
    buf_release(&got);
    buf_release(&want);
    return same;
}

/* Metaspace texts that hold U+2581 themselves come back with spaces, as in the library. */
static bool cannot_return(const struct tok *t, const char *s) {
    return strcmp(tok_model(t), "gemma4") == 0 && strstr(s, "\xe2\x96\x81");
}

static void compare(const struct tok *t, const char *model, const char *from) {
    struct err e = {0};
    bool nfc = tok_pre(t) && strncmp(tok_pre(t), "qwen", 4) == 0;
    int n_equal = 0, n_back = 0, n_cannot = 0;
    const char *at = ids_of(model);
    for (size_t i = 0; i < cases.n; i++) {
        struct ids got = {0};
        CHECK_OK(tok_encode(t, cases.v[i], cases.len[i], true, false, &got, &e));
        bool same = same_ids(&got, &at);
        if (!same) fprintf(stderr, "%s from %s: case %zu differs\n", model, from, i);
        n_equal += same;
        n_back += decodes_to(t, &got, cases.v[i], cases.len[i], nfc);
        n_cannot += cannot_return(t, cases.v[i]);
        ids_release(&got);
    }
    CHECK_EQ_I64(n_equal, N_CASES);
    CHECK_EQ_I64(n_back, N_CASES - n_cannot);
    CHECK(n_cannot < 10);
}

static void test_golden(void) {
    static const char *const models[] = {"qwen35moe", "qwen3", "mistral", "gemma4moe"};
    for (size_t i = 0; i < 4; i++) {
        struct tok *t = tok_of_folder(models[i]);
        if (!t) return;
        compare(t, models[i], "tokenizer.json");
        struct tok *g = tok_through_gguf(t);
        if (g) compare(g, models[i], "GGUF keys");
        tok_free(g);
        tok_free(t);
    }
}

static bool encodes(const struct tok *t, const char *s, size_t n, bool special, bool bos,
                    const int32_t *want, int64_t n_want) {
    struct err e = {0};
    struct ids got = {0};
    bool same = tok_encode(t, s, n, special, bos, &got, &e) == 0 && got.n == n_want &&
                (n_want == 0 || memcmp(got.v, want, (size_t)n_want * sizeof *want) == 0);
    ids_release(&got);
    return same;
}

static void test_special_tokens(void) {
    struct tok *t = tok_of_folder("qwen3"), *m = tok_of_folder("mistral");
    static const int32_t on[] = {1011}, think[] = {1022}, bos[] = {1};
    CHECK(encodes(t, "<|im_start|>", 12, true, false, on, 1));
    CHECK(!encodes(t, "<|im_start|>", 12, false, false, on, 1)); /* spelled out */
    CHECK(encodes(t, "<think>", 7, false, false, think, 1));     /* user-defined: always */
    CHECK(encodes(t, "", 0, true, true, NULL, 0));               /* adds no BOS */
    CHECK(encodes(m, "", 0, true, true, bos, 1));
    CHECK(encodes(m, "", 0, true, false, NULL, 0));
    CHECK(tok_is_eog(t, 1012) && tok_is_eog(t, 1010) && !tok_is_eog(t, 1011) && !tok_is_eog(t, 5));
    CHECK(!tok_is_eog(t, -1) && !tok_is_eog(t, 1 << 30));
    CHECK_EQ_I64(tok_find(t, "<|im_end|>"), 1012);
    CHECK_EQ_I64(tok_find(t, "no such token"), -1);
    struct buf b = {0};
    tok_decode(t, 1011, false, &b);
    tok_decode(t, 1023, false, &b);
    tok_decode(t, 99999, true, &b);
    tok_decode(t, -1, true, &b);
    CHECK_EQ_STR(b.data, "</think>");
    buf_release(&b);
    tok_free(t);
    tok_free(m);
}

/* Checks that byte-level tokenizers return every byte string that is not UTF-8 byte for byte. */
static void test_invalid_utf8(void) {
    static const char *const models[] = {"mistral", "gemma4moe"};
    for (size_t k = 0; k < 2; k++) {
        struct err e = {0};
        struct tok *t = tok_of_folder(models[k]);
        uint32_t seed = 1;
        for (int round = 0; round < 300; round++) {
            char s[64];
            for (size_t i = 0; i < sizeof s; i++) {
                seed = seed * 1664525 + 1013904223;
                s[i] = (char)(unsigned char)(seed >> 24);
                if (s[i] == '<' || s[i] == '[') s[i] = (char)(unsigned char)0xe2;
            }
            struct ids got = {0};
            CHECK_OK(tok_encode(t, s, sizeof s, true, false, &got, &e));
            CHECK(decodes_to(t, &got, s, sizeof s, false));
            ids_release(&got);
        }
        /* cut characters, surrogates, overlong forms, past U+10FFFF */
        static const char bad[] = "a\xe6\x97\xed\xa0\x80 \xc0\x80\xf4\x90\x80\x80\xff";
        struct ids got = {0};
        CHECK_OK(tok_encode(t, bad, sizeof bad - 1, true, false, &got, &e));
        CHECK(decodes_to(t, &got, bad, sizeof bad - 1, false));
        ids_release(&got);
        tok_free(t);
    }
}

/* Checks that a megabyte in one piece does not take quadratic time and that its ids decode to the
 * text. */
static void test_long_runs(void) {
    static const char *const models[] = {"qwen35moe", "mistral", "gemma4moe"};
    static const char *const unit[] = {"a", "abcde", "\xe6\x97\xa5", " ", "\n", "thein", "A", "."};
    enum { BYTES = 1 << 18 };
    struct err e = {0};
    char *text = xmalloc(BYTES);
    for (size_t k = 0; k < 3; k++) {
        struct tok *t = tok_of_folder(models[k]);
        for (size_t u = 0; u < COUNT_OF(unit); u++) {
            size_t n = strlen(unit[u]), len = BYTES / n * n;
            for (size_t i = 0; i < len; i++) text[i] = unit[u][i % n];
            struct ids got = {0};
            CHECK_OK(tok_encode(t, text, len, true, false, &got, &e));
            CHECK(decodes_to(t, &got, text, len, false));
            ids_release(&got);
        }
        tok_free(t);
    }
    free(text);
}

struct job {
    const struct tok *t;
    bool ok;
};

static void *encode_all(void *arg) {
    struct job *j = arg;
    struct err e = {0};
    const char *at = ids_of("qwen35moe");
    j->ok = true;
    for (size_t i = 0; i < cases.n; i++) {
        struct ids got = {0};
        tok_encode(j->t, cases.v[i], cases.len[i], true, false, &got, &e);
        j->ok = same_ids(&got, &at) && j->ok;
        ids_release(&got);
    }
    return NULL;
}

static void test_threads(void) {
    struct tok *t = tok_of_folder("qwen35moe");
    pthread_t th[4];
    struct job job[4];
    for (int i = 0; i < 4; i++) {
        job[i] = (struct job){t, false};
        CHECK_EQ_I64(pthread_create(&th[i], NULL, encode_all, &job[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(th[i], NULL);
    for (int i = 0; i < 4; i++) CHECK(job[i].ok);
    tok_free(t);
}

/* Returns the tokenizer of a model's tokenizer.json with one more added token, a single word. */
static struct tok *tok_with_word(const char *model, int id, const char *text) {
    struct err e = {0};
    struct json *j = NULL;
    struct tok *t = NULL;
    struct buf b = {0};
    static const char list[] = "\"added_tokens\": [";
    char path[256], *file;
    size_t n;
    snprintf(path, sizeof path, MODELS "%s/tokenizer.json", model);
    CHECK_OK(io_read_file(&file, &n, path, 1 << 26, &e));
    const char *at = strstr(file, list) + sizeof list - 1;
    buf_add(&b, file, (size_t)(at - file));
    buf_fmt(&b,
            "{\"id\": %d, \"content\": \"%s\", \"single_word\": true, \"lstrip\": false, "
            "\"rstrip\": false, \"normalized\": false, \"special\": false},%s",
            id, text, at);
    CHECK_OK(json_parse(&j, b.data, b.len, path, &e));
    CHECK_OK(tok_from_hf(&t, j, NULL, NULL, NULL, 0, NULL, &e));
    json_free(j);
    buf_release(&b);
    free(file);
    return t;
}

/* Checks single words next to a joiner, and one of a single character inside a word. The ids are
 * those of tokenizers 0.23. */
static void test_single_words(void) {
    struct tok *t = tok_with_word("qwen3", 1024, "<x>");
    check_ids(t, "<x>", "1024");
    check_ids(t, "<x>\xe2\x80\x8d", "27 87 29 158 222 235");
    check_ids(t, "\xe2\x80\x8c<x>", "158 222 234 27 87 29");
    tok_free(t);
    t = tok_with_word("gemma4moe", 1280, "\xf0\x9d\x84\x9e");
    check_ids(t, "\xf0\x9d\x84\x9e", "1280");
    check_ids(t, "a\xf0\x9d\x84\x9e", "337 256 173 148 174");
    check_ids(t,
              "\xf0\x9d\x84\x9e"
              "a",
              "256 173 148 174 337");
    tok_free(t);
}

int main(void) {
    RUN(load);
    RUN(test_golden);
    RUN(test_special_tokens);
    RUN(test_invalid_utf8);
    RUN(test_long_runs);
    RUN(test_threads);
    RUN(test_single_words);
    strs_release(&cases);
    free((char *)(uintptr_t)golden);
    return check_done();
}
