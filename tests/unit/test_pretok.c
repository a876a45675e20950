// SPDX-License-Identifier: MIT
/* Pre-tokens of every row of pretok.def, compared with those of the tokenizers library; names and
 * aliases; the row chosen for a folder's regexes. */
#include <string.h>

#include "base/json.h"
#include "tests/check.h"
#include "tok/pretok.h"

enum { MAX = 1 << 20 };

/* Splits s repeatedly, and within a longer text; the pieces must cover it.
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

/* Tests rows that share regexes: NFC and ignore_merges decide between them, and a row's whole list
 * must match. */
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

static int n_regexes(const struct pretok_row *row) {
    int n = 0;
    while (n < PRETOK_LEVELS && row->regex[n]) n++;
    return n;
}

static bool same_row(const struct pretok_row *a, const struct pretok_row *b) {
    int n = n_regexes(a);
    if (n != n_regexes(b)) return false;
    for (int i = 0; i < n; i++)
        if (strcmp(a->regex[i], b->regex[i]) != 0) return false;
    return true;
}

/* Checks that the probe text distinguishes any two rows with different regexes, except
 * bailingmoe's, which always splits like stablelm2's. */
static void test_behaviour(void) {
    const struct pretok_row *row;
    for (size_t i = 0; (row = pretok_at(i)) != NULL; i++) {
        if (row->chars || strcmp(row->name, "bailingmoe") == 0) continue;
        const struct pretok_row *got =
            pretok_by_behaviour(row->regex, n_regexes(row), row->nfc, row->ignore_merges);
        if (!got || !same_row(row, got))
            CHECK_FAIL("%s cuts as %s", row->name, got ? got->name : "none");
    }
}

#define LLAMA3(short, word, number, line)                                                          \
    short "|[^\\r\\n\\p{L}\\p{N}]?" word "|" number "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" line        \
          "|\\s+(?!\\S)|\\s+"
/* Tests the same rules in different spellings, and different rules that only look similar. */
static void test_rewritten(void) {
    static const struct {
        const char *regex, *name; /* NULL: none */
    } list[] = {
        {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| "
         "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
         "stablelm2"},
        {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
         "?[^\\s\\p{L}\\p{N}]+[\\n\\r]*|\\s*[\\n\\r]+|\\s+(?=\\s|$)|\\s+",
         "dbrx"},
        {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
         "?[^\\s\\p{L}\\p{N}]+[\\n\\r]*|\\s*[\\n\\r]+|\\s+(?!\\S)|\\s+",
         "dbrx"},
        {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\p{N}\\s\\p{L}]+|\\s+(?!\\S)|\\s+",
         "gpt-2"},
        {"\\p{N}{1,2}|\\p{L}+", NULL},
        /* Llama 3's with one difference each, which few texts show. */
        {LLAMA3("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "\\p{L}+", "\\p{N}{1}\\p{N}{0,2}", "\\s*[\\r\\n]+"),
         "dbrx"},
        {LLAMA3("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "\\p{L}+", "\\d{1,3}", "\\s*[\\r\\n]+"), NULL},
        {LLAMA3("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "\\p{L}+", "\\p{Nd}{1,3}", "\\s*[\\r\\n]+"), NULL},
        {LLAMA3("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "\\p{L}{1,16}", "\\p{N}{1,3}", "\\s*[\\r\\n]+"),
         NULL},
        {LLAMA3("(?i:['\xe2\x80\x99]s|'t|'re|'ve|'m|'ll|'d)", "\\p{L}+", "\\p{N}{1,3}",
                "\\s*[\\r\\n]+"),
         NULL},
        {LLAMA3("(?:'[sS]|'t|'T|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])", "\\p{L}+",
                "\\p{N}{1,3}", "\\s*[\\r\\n]+"),
         NULL},
        {LLAMA3("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "\\p{L}+", "\\p{N}{1,3}", "\\s*\\r?\\n+"), NULL},
    };
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        const struct pretok_row *got = pretok_by_behaviour(&list[i].regex, 1, false, false);
        if (!list[i].name && got) CHECK_FAIL("regex %zu cuts as %s", i, got->name);
        if (list[i].name && !got) CHECK_FAIL("regex %zu is not known", i);
        if (list[i].name && got) CHECK_EQ_STR(got->name, list[i].name);
    }
}

/* Tests that equally similar rows are told apart by NFC and ignore_merges. */
static void test_most_like(void) {
#define SPELLED_OUT "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
    static const struct {
        const char *regex, *name;
        bool nfc, ignore_merges;
    } list[] = {
        {LLAMA3(SPELLED_OUT, "\\p{L}+", "\\p{N}{1,3}", "\\s*[\\r\\n]+"), "dbrx", false, false},
        {LLAMA3(SPELLED_OUT, "\\p{L}+", "\\p{N}{1,3}", "\\s*[\\r\\n]+"), "llama-bpe", false, true},
        {LLAMA3(SPELLED_OUT, "\\p{L}+", "\\p{N}", "\\s*[\\r\\n]+"), "stablelm2", false, false},
        {LLAMA3(SPELLED_OUT, "\\p{L}+", "\\p{N}", "\\s*[\\r\\n]+"), "qwen2", true, false},
    };
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        const struct pretok_row *row =
            pretok_most_like(&list[i].regex, 1, list[i].nfc, list[i].ignore_merges);
        CHECK(row != NULL);
        if (row) CHECK_EQ_STR(row->name, list[i].name);
    }
}

/* Tests syntax that PCRE2 reads differently. Lengths of the pieces: Split of the tokenizers library
 * 0.23.3, behavior Isolated. */
static void test_syntax(void) {
    static const struct {
        const char *regex, *text, *want;
    } list[] = {
        {"\\p{Katakana}+", "\xe3\x82\xb9\xe3\x83\xbc-", "3 4"},
        {"[\\p{Arabic}x]+", "\xd8\xb9\xd8\x8cxa", "2 2 1 1"},
        {"\\p{^Hiragana}+", "a\xe3\x83\xbc\xe3\x81\xae", "4 3"},
        {"[\\W_]+", "x_y \xe0\xa4\x95\xe0\xa4\xbe", "1 1 1 1 6"},
        {"[^\\W\\d]+",
         "a\xc2\xb2"
         "1\xe0\xa4\xbe",
         "1 3 3"},
        {"[\\s[^\\w]]+", "a, b", "1 2 1"},
        {"[a-w&&[^c-g]z]+", "abczd", "2 3"},
        {"[a-z&&aeiou]+", "abe", "1 1 1"},
        {"[^\\s&&[^\\n]]+",
         "a\x0d\x0a"
         "b",
         "1 1 2"},
        {"[^a-z&&[aeiou]]+", "abe!", "1 1 1 1"},
        {"[[:^space:]]+", "a b", "1 1 1"},
        {"[\\w]+",
         "\xef\xbc\xa1\xc2\xb2"
         "b",
         "3 2 1"},
        {"\\w+",
         "\xe3\x80\x81\xc2\xb2"
         "b",
         "3 3"},
        {"\\v+",
         "a\x0a\x0b"
         "b",
         "2 1 1"},
        {"[\\v]", "\x0d\x0a\x0b", "2 1"},
        {"(?m:.+)",
         "a\x0a"
         "b",
         "3"},
        {"(?:(?i)ab|c)d", "xABdCd", "1 3 2"},
        {"\\u4e2d+", "a\xe4\xb8\xad\xe4\xb8\xad", "1 6"},
        {"[\\S]+", "a\xe1\xa0\x8e b", "4 1 1"},
        {"[[:print:]]+", "a b\t\xe2\x80\xa8\xee\x80\x80\xc2\xad\xc2\xa0\x7f", "3 4 7 1"},
        {"[[:graph:]]+", "a b\xee\x80\x80\xc2\xad\xc2\xa0", "1 1 6 2"},
        {"[[:ascii:]]+", "a\t\x7f\xc3\xa9 b", "3 2 2"},
        {"[[:^ascii:]x]+", "a\xc3\xa9x\xc2\xb2", "1 5"},
    };
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        struct pretok *p = NULL;
        struct err e;
        struct buf b = {0};
        const size_t n = strlen(list[i].text);
        CHECK_OK(pretok_new_own(&p, &list[i].regex, 1, &e));
        if (!p) continue;
        struct pretok_run *run = pretok_run_new(p);
        for (size_t at = 0, end; at < n; at = end) {
            end = pretok_next(run, list[i].text, n, at);
            buf_fmt(&b, "%s%zu", at ? " " : "", end - at);
        }
        if (strcmp(b.data, list[i].want) != 0)
            CHECK_FAIL("%s: %s, not %s", list[i].regex, b.data, list[i].want);
        pretok_run_free(run);
        pretok_free(p);
        buf_release(&b);
    }
}

/* Checks that a file's regex that explodes is stopped, and that an invalid one is refused. */
static void test_own(void) {
    static const char *const bad[] = {
        "(",    "",      "\xff",    "(?<=a*)b", "[a",     "[a[b&&c]]",    "[[^a]&&[^[^b]]]",
        "\\X",  "\\pL+", "\\Qa\\E", "a(?i)b|c", "(?s:.)", "[[:graphs:]]", "[\\B]",
        "[&&a]"};
    const char *slow = "(a|aa)+$|(a+)+b";
    struct pretok *p = NULL;
    struct err e;
    char text[4001];
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_ERR(pretok_new_own(&p, &bad[i], 1, &e), ERR_DATA, "split regex");
    CHECK_OK(pretok_new_own(&p, &slow, 1, &e));
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 2] = 'c';
    text[sizeof text - 1] = 0;
    struct pretok_run *run = pretok_run_new(p);
    CHECK_EQ_I64((int64_t)pretok_next(run, text, strlen(text), 0), (int64_t)strlen(text));
    pretok_run_free(run);
    pretok_free(p);
}

int main(void) {
    RUN(test_pieces);
    RUN(test_names);
    RUN(test_regexes);
    RUN(test_behaviour);
    RUN(test_rewritten);
    RUN(test_most_like);
    RUN(test_syntax);
    RUN(test_own);
    return check_done();
}
