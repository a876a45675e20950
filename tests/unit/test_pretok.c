// SPDX-License-Identifier: MIT
/* Pre-tokens of every rule of pretok.def against those of the tokenizers library, names and
 * aliases, and which rule a folder's regexes get. */
#include <string.h>

#include "core/json.h"
#include "tests/check.h"
#include "tok/pretok.h"

enum { MAX = 1 << 20 };

/* Cuts s with one run after another, and in the middle of another text: nothing may be left over.
 */
static void check_string(struct pretok_run *run, const char *name, const char *s,
                         const struct json *want) {
    const size_t n = strlen(s);
    size_t at = 0;
    for (const struct json *w = json_first(want); w; w = json_next(w)) {
        int64_t len = 0;
        CHECK(json_i64(w, &len));
        const size_t end = at < n ? pretok_next(run, s, n, at) : at;
        if (end - at != (size_t)len) {
            CHECK_FAIL("%s: \"%s\" at %zu: %zu bytes, not %lld", name, s, at, end - at,
                       (long long)len);
            return;
        }
        at = end;
    }
    if (at != n) CHECK_FAIL("%s: \"%s\": cut to %zu of %zu", name, s, at, n);
}

static void check_rule(const char *name, const struct json *strings, const struct json *pieces) {
    struct pretok *p = NULL;
    struct err e;
    const struct pretok_row *row = pretok_by_name(name);
    CHECK(row);
    if (!row) return;
    CHECK_OK(pretok_new(&p, row, &e));
    struct pretok_run *run = pretok_run_new(p);
    for (int pass = 0; pass < 2; pass++) {
        const struct json *want = json_first(pieces);
        for (const struct json *s = json_first(strings); s && want; s = json_next(s)) {
            check_string(run, name, json_str(s), want);
            want = json_next(want);
        }
        CHECK(!want);
        (void)pretok_next(run, "left 12 half-way", 16, 0);
    }
    pretok_run_free(run);
    pretok_free(p);
}

static void test_pieces(void) {
    struct json *root = NULL;
    struct err e;
    int n = 0;
    CHECK_OK(json_read(&root, "tests/golden/pretok/pieces.json", MAX, &e));
    const struct json *all = json_get(root, "pieces");
    for (const struct json *r = json_first(all); r; r = json_next(r), n++)
        check_rule(json_name(r), json_get(root, "strings"), r);
    CHECK(n >= 12);
    json_free(root);
}

static void test_names(void) {
    static const char *const same[][2] = {{"llama3", "llama-bpe"},
                                          {"llama-v3", "llama-bpe"},
                                          {"falcon3", "llama-bpe"},
                                          {"lfm2", "llama-bpe"},
                                          {"glm4", "dbrx"},
                                          {"smaug-bpe", "dbrx"},
                                          {"starcoder", "smollm"},
                                          {"command-r", "smollm"},
                                          {"refact", "smollm"},
                                          {"deepseek-r1-qwen", "qwen2"},
                                          {"hunyuan", "stablelm2"},
                                          {"phi-2", "gpt-2"},
                                          {"llama4", "gpt-4o"},
                                          {"exaone4", "gpt-2"},
                                          {"bailingmoe2", "bailingmoe"},
                                          {"hunyuan-dense", "deepseek-v3"}};
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        const struct pretok_row *r = pretok_by_name(same[i][0]);
        if (!r || strcmp(r->name, same[i][1]) != 0)
            CHECK_FAIL("%s is %s", same[i][0], r ? r->name : "not known");
    }
    CHECK(!pretok_by_name("llama"));
    CHECK(!pretok_by_name("phi"));
    CHECK(!pretok_by_name(""));
    CHECK(!pretok_by_name(" "));
}

/* Rows share regexes: NFC and ignore_merges decide, and a row's list must fit as a whole. */
static void test_regexes(void) {
    const char *l3 = pretok_by_name("llama-bpe")->regex[0], *q2 = pretok_by_name("qwen2")->regex[0];
    const char *g2 = pretok_by_name("gpt-2")->regex[0];
    const char *digits[] = {"\\p{N}", g2, "\\p{N}"}, *swapped[] = {g2, "\\p{N}"};
    CHECK_EQ_STR(pretok_by_regexes(&l3, 1, false, true)->name, "llama-bpe");
    CHECK_EQ_STR(pretok_by_regexes(&l3, 1, false, false)->name, "dbrx");
    CHECK_EQ_STR(pretok_by_regexes(&q2, 1, true, false)->name, "qwen2");
    CHECK_EQ_STR(pretok_by_regexes(&q2, 1, false, false)->name, "stablelm2");
    CHECK_EQ_STR(pretok_by_regexes(digits, 2, false, false)->name, "smollm");
    CHECK_EQ_STR(pretok_by_regexes(digits + 1, 1, false, false)->name, "gpt-2");
    CHECK(!pretok_by_regexes(digits, 1, false, false));
    CHECK(!pretok_by_regexes(digits, 3, false, false));
    CHECK(!pretok_by_regexes(swapped, 2, false, false));
    CHECK(!pretok_by_regexes(digits, 0, false, false));
}

int main(void) {
    RUN(test_pieces);
    RUN(test_names);
    RUN(test_regexes);
    return check_done();
}
