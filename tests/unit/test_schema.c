// SPDX-License-Identifier: MIT
/* tests/unit/test_schema.c - JSON Schema against an independent validator
 * (tests/golden/suites/schema.json, made by tests/oracle/schema.py); malformed and endless schemas;
 * regular expressions that explode. */
#include "base/json.h"
#include "tests/check.h"
#include "text/re.h"
#include "text/schema.h"

static struct err e;

static int check_text(const char *schema, const char *value, bool *ok, struct buf *why) {
    struct json *s, *v;
    if (json_parse(&s, schema, strlen(schema), "schema", &e)) return (int)e.code;
    CHECK_OK(json_parse(&v, value, strlen(value), "value", &e));
    buf_reset(why);
    int rc = schema_check(s, v, ok, why, &e);
    json_free(s);
    json_free(v);
    return rc;
}

static int sound_text(const char *schema) {
    struct json *s;
    if (json_parse(&s, schema, strlen(schema), "schema", &e)) return (int)e.code;
    const int rc = schema_sound(s, &e);
    json_free(s);
    return rc;
}

static void test_golden(void) {
    struct json *root;
    int64_t n = 0, n_valid = 0;
    CHECK_OK(json_read(&root, "tests/golden/suites/schema.json", 1 << 24, &e));
    for (const struct json *c = json_first(json_get(root, "cases")); c; c = json_next(c)) {
        const struct json *want = json_first(json_get(c, "valid"));
        CHECK_OK(schema_sound(json_get(c, "schema"), &e));
        for (const struct json *v = json_first(json_get(c, "values")); v; v = json_next(v), n++) {
            struct buf why = {0};
            bool ok = false;
            CHECK_OK(schema_check(json_get(c, "schema"), v, &ok, &why, &e));
            if (ok != json_bool(want, false))
                CHECK_FAIL("case %" PRId64 ": %d (%s)", n, ok, why.len ? why.data : "");
            if (!ok && !why.len) CHECK_FAIL("case %" PRId64 ": no reason given", n);
            n_valid += ok;
            want = json_next(want);
            buf_release(&why);
        }
    }
    CHECK(n > 1200 && n_valid > 300 && n - n_valid > 300);
    json_free(root);
}

static void test_says_where(void) {
    struct buf why = {0};
    bool ok = true;
    const char *schema = "{\"properties\": {\"a\": {\"items\": {\"maximum\": 2}}}}";
    CHECK_OK(check_text(schema, "{\"a\": [1, 5]}", &ok, &why));
    CHECK(!ok);
    CHECK_EQ_STR(why.data, "/a/1: is not at most 2");
    buf_release(&why);
}

/* Checks that integers that a double cannot hold are compared exactly. */
static void test_large_integers(void) {
    struct buf why = {0};
    bool ok;
    const char *schema = "{\"enum\": [9007199254740993, {\"a\": [1096538947462324225]}]}";
    CHECK_OK(check_text(schema, "9007199254740993", &ok, &why));
    CHECK(ok);
    CHECK_OK(check_text(schema, "9007199254740992", &ok, &why));
    CHECK(!ok);
    CHECK_OK(check_text(schema, "{\"a\": [1096538947462324224]}", &ok, &why));
    CHECK(!ok);
    buf_release(&why);
}

static void test_malformed(void) {
    static const struct {
        const char *schema, *value, *message;
    } bad[] = {
        {"3", "1", "the schema is neither object nor bool"},
        {"{\"items\": null}", "[1]", "\"items\" is neither object nor bool"},
        {"{\"allOf\": [3]}", "[1]", "a list in the schema has an item that is neither"},
        {"{\"additionalProperties\": null}", "{\"a\": 1}", "\"additionalProperties\" is neither"},
        {"{\"type\": \"int\"}", "1", "names no JSON type"},
        {"{\"type\": 3}", "1", "names no JSON type"},
        {"{\"enum\": 3}", "1", "is not a list"},
        {"{\"minimum\": \"3\"}", "1", "\"minimum\" is not a number"},
        {"{\"multipleOf\": 0}", "1", "positive"},
        {"{\"pattern\": \"(\"}", "\"a\"", "regular expression"},
        {"{\"required\": [1]}", "{}", "other than a name"},
        {"{\"properties\": {\"a\": 1}}", "{\"a\": 1}", "neither object nor bool"},
        {"{\"anyOf\": []}", "1", "is not a list of schemas"},
        {"{\"$ref\": \"http://x\"}", "1", "within this schema"},
        {"{\"$ref\": \"#/a\"}", "1", "points at nothing"},
        {"{\"$ref\": \"#\"}", "1", "without end"},
        {"{\"unevaluatedItems\": false}", "1", "not supported"},
        {"{\"not\": {\"$ref\": \"#\"}}", "1", "without end"},
        {"{\"allOf\": [{\"$ref\": \"#\"}, {\"$ref\": \"#\"}]}", "1", "without end"},
    };
    struct buf why = {0};
    bool ok;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_ERR(check_text(bad[i].schema, bad[i].value, &ok, &why), ERR_DATA, bad[i].message);
        CHECK_ERR(sound_text(bad[i].schema), ERR_DATA, bad[i].message);
    }
    buf_release(&why);
}

/* Checks schemas that only some values show to be malformed, and good ones that resemble them. */
static void test_sound(void) {
    static const char *const bad[] = {
        "{\"minLength\": 5, \"pattern\": \"(\"}",
        "{\"properties\": {\"a\": {\"items\": [{\"anyOf\": [true, {\"pattern\": \"(\"}]}]}}}",
        "{\"patternProperties\": {\"(\": true}}",
        "{\"$defs\": {\"a\": {\"if\": true, \"else\": {\"type\": \"map\"}}}}",
        "{\"required\": [\"a\", 1]}",
        "{\"dependentRequired\": {\"a\": 1}}",
        "{\"additionalProperties\": {\"not\": {\"maxItems\": \"1\"}}}",
        "{\"$defs\": {\"A\": {\"$ref\": \"#/$defs/A\"}}, \"properties\": {\"a\": {\"$ref\": "
        "\"#/$defs/A\"}}}",
        "{\"$defs\": {\"A\": {\"minLength\": 3, \"$ref\": \"#/$defs/B\"}, \"B\": {\"allOf\": "
        "[true, "
        "{\"$ref\": \"#/$defs/A\"}]}}}",
        "{\"items\": {\"dependentSchemas\": {\"a\": {\"$ref\": \"#/items\"}}}}",
    };
    static const char *const good[] = {
        "true",
        "{\"default\": {\"pattern\": \"(\"}, \"enum\": [{\"type\": \"map\"}]}",
        "{\"properties\": {\"pattern\": {\"type\": \"object\"}, \"items\": true}}",
        "{\"properties\": {\"child\": {\"$ref\": \"#\"}}, \"items\": {\"$ref\": \"#\"}}",
        ("{\"$defs\": {\"A\": {\"$ref\": \"#/$defs/B\"}, \"B\": {\"anyOf\": [{\"type\": \"null\"}, "
         "{\"items\": {\"$ref\": \"#/$defs/A\"}}]}}, \"$ref\": \"#/$defs/A\"}"),
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (!sound_text(bad[i])) CHECK_FAIL("%s", bad[i]);
    for (size_t i = 0; i < COUNT_OF(good); i++) CHECK_OK(sound_text(good[i]));
}

static void test_expressions(void) {
    enum re_answer a;
    char text[64];
    memset(text, 'a', sizeof text);
    CHECK_OK(re_search("^b", "a\nb", 3, &a, &e));
    CHECK_EQ_I64(a, RE_NO);
    CHECK_OK(re_search("(?m)^b$", "a\nb", 3, &a, &e));
    CHECK_EQ_I64(a, RE_YES);
    CHECK_OK(re_search("a$", "a\n", 2, &a, &e));
    CHECK_EQ_I64(a, RE_NO);
    CHECK_OK(re_search("^(a+)+$b", text, sizeof text, &a, &e));
    CHECK_EQ_I64(a, RE_NO); /* already rejected by its end */
    text[63] = 'c';
    CHECK_OK(re_search("^(a|a?)+$", text, sizeof text, &a, &e));
    CHECK_EQ_I64(a, RE_GAVE_UP);
    CHECK_ERR(re_search("a", "\xff", 1, &a, &e), ERR_DATA, "UTF-8");
    CHECK_ERR(re_search("(?<n", "a", 1, &a, &e), ERR_DATA, "regular expression");
}

/* Checks that patterns of schemas may be those of JavaScript, and still those of Perl. */
static void test_patterns(void) {
    static const struct {
        const char *pattern, *text;
        bool found;
    } row[] = {
        {"^[\\u0041-\\u007a ]+$", "Oslo Rome", true},
        {"^[\\u0041-\\u007a ]+$", "Oslo 1", false},
        {"^\\u{1F600}$", "\xf0\x9f\x98\x80", true},
        {"^[^]$", "\n", true},
        {"a[]", "a", false},
        {"^(?:(a)|b)\\1[^]$", "bc", true},
        {"^\\x{41}$", "A", true},
        {"^[]a]$", "]", true},
    };
    enum re_answer a;
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        CHECK_OK(re_search_schema(row[i].pattern, row[i].text, strlen(row[i].text), &a, &e));
        if ((a == RE_YES) != row[i].found) CHECK_FAIL("%s in %s", row[i].pattern, row[i].text);
    }
    CHECK_ERR(re_search_schema("(", "a", 1, &a, &e), ERR_DATA, "regular expression");
    CHECK_ERR(re_search("\\u0041", "A", 1, &a, &e), ERR_DATA, "regular expression");
}

int main(void) {
    RUN(test_golden);
    RUN(test_says_where);
    RUN(test_large_integers);
    RUN(test_malformed);
    RUN(test_sound);
    RUN(test_expressions);
    RUN(test_patterns);
    return check_done();
}
