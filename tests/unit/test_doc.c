// SPDX-License-Identifier: MIT
/* tests/unit/test_doc.c - documents as cJSON trees: invalid input, exact integers, the layout of
 * printed text, and failure of every single allocation. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/doc.h"
#include "tests/check.h"

static int parse(cJSON **out, const char *text, struct err *e) {
    return doc_parse(out, text, strlen(text), "a.json", e);
}

static void test_asking(void) {
    struct err e = {0};
    cJSON *j;
    int64_t v = 7;
    CHECK_OK(parse(&j,
                   "{\"s\": \"x\\u00e9\\ud83d\\ude00\\n\", \"i\": 9007199254740992, \"neg\": -3,"
                   " \"big\": 9007199254740994, \"f\": 2.5, \"one\": 1.0, \"t\": true, \"n\": null,"
                   " \"S\": \"other\"}",
                   &e));
    CHECK_EQ_STR(doc_str(j, "s"), "x\xc3\xa9\xf0\x9f\x98\x80\n");
    CHECK_EQ_STR(doc_str(j, "S"), "other");
    CHECK(!doc_str(j, "i") && !doc_str(j, "none") && !doc_str(NULL, "s"));
    CHECK(doc_i64(j, "i", &v) && v == INT64_C(9007199254740992));
    CHECK(doc_i64(j, "neg", &v) && v == -3 && doc_i64(j, "one", &v) && v == 1);
    CHECK(!doc_i64(j, "big", &v) && !doc_i64(j, "f", &v) && !doc_i64(j, "s", &v) && v == 1);
    CHECK(doc_num(j, "f", 0) == 2.5 && doc_num(j, "s", 4) == 4 && doc_num(NULL, "f", 4) == 4);
    CHECK(doc_bool(j, "t", false) && !doc_bool(j, "none", false) && doc_bool(j, "n", true));
    CHECK(doc_is(j, "S", "other") && !doc_is(j, "S", "othe") && !doc_is(j, "i", "other"));
    CHECK(!doc_get(doc_get(j, "s"), "x"));
    cJSON_Delete(j);
}

static void test_refused(void) {
    static const struct {
        const char *text, *why;
    } t[] = {{"", "line 1, column 1"},
             {"{\"a\": 1,\n  \"b\": }", "line 2, column 8"},
             {"[1] x", "line 1, column 5"},
             {"[1", "line 1"},
             {"{\"a\" 1}", "line 1"},
             {"[NaN]", "line 1"},
             {"[\"\\ud800\"]", "line 1"},
             {"[1e999]", "too large"},
             {"{\"b\": 1, \"a\": 2, \"b\": 3}", "\"b\" occurs twice"},
             {"[\"\xff\"]", "not UTF-8"},
             {"{\"\xc0\x80\": 1}", "not UTF-8"}};
    struct err e = {0};
    cJSON *j;
    for (size_t i = 0; i < COUNT_OF(t); i++)
        CHECK_ERR(parse(&j, t[i].text, &e), ERR_DATA, t[i].why);
    CHECK_ERR(doc_parse(&j, "[1\0]", 4, "a.json", &e), ERR_DATA, "line 1, column 3");
    CHECK_ERR(doc_read(&j, "no/such.json", 100, &e), ERR_USAGE, "no/such.json");
    CHECK(!j && !doc_find("no", "such.json", 100));
}

/* Tests nesting: within the limit, beyond it, beyond cJSON's own limit, and unclosed. */
static void test_depth(void) {
    static const int levels[] = {64, 65, 999, 100000};
    struct err e = {0};
    for (size_t i = 0; i < COUNT_OF(levels); i++)
        for (int closed = 0; closed < 2; closed++) {
            const size_t n = (size_t)levels[i];
            struct buf b = {0};
            cJSON *j;
            for (size_t k = 0; k < n; k++) buf_chr(&b, '[');
            for (size_t k = 0; k < n && closed; k++) buf_chr(&b, ']');
            const int rc = doc_parse(&j, b.data, b.len, "deep", &e);
            CHECK_EQ_I64(rc, closed && n == 64 ? 0 : ERR_DATA);
            cJSON_Delete(j);
            buf_release(&b);
        }
}

static void prints(const char *text, const char *expect) {
    struct err e = {0};
    struct buf b = {0};
    cJSON *j;
    CHECK_OK(parse(&j, text, &e));
    CHECK_OK(doc_print(j, &b, &e));
    CHECK_EQ_STR(b.data, expect);
    cJSON_Delete(j);
    buf_release(&b);
}

/* Tests the layout described in doc.h; expected numbers are those of Python's json. */
static void test_layout(void) {
    prints("{}", "{}");
    prints("{\"a\":[],\"b\":{}}", "{\n  \"a\": [],\n  \"b\": {}\n}");
    prints("{\"a\":{\"x\":1,\"y\":[1,2]}}", "{\n  \"a\": {\"x\": 1, \"y\": [1, 2]}\n}");
    prints("{\"rows\":[{\"x\":1},{\"x\":2}]}",
           "{\n  \"rows\": [\n    {\"x\": 1},\n    {\"x\": 2}\n  ]\n}");
    prints(
        "[\"a\\\"\\\\\\u0001\\u00e9\", 1.0, 0.1, 123456789.25, 1e300, -0.5, 9007199254740991]",
        "[\n  \"a\\\"\\\\\\u0001\xc3\xa9\",\n  1,\n  0.1,\n  123456789.25,\n  1e+300,\n  -0.5,\n  "
        "9007199254740991\n]");
    struct buf b = {0}, want = {0};
    /* a list of numbers stays on one line; a row that is too long does not */
    buf_str(&b, "{\"n\":[0");
    buf_str(&want, "{\n  \"n\": [0");
    for (int i = 1; i < 200; i++) buf_fmt(&b, ",%d", i), buf_fmt(&want, ", %d", i);
    buf_fmt(&b, "],\"s\":{\"x\":\"%090d\",\"y\":1}}", 0);
    buf_fmt(&want, "],\n  \"s\": {\n    \"x\": \"%090d\",\n    \"y\": 1\n  }\n}", 0);
    prints(b.data, want.data);
    buf_release(&b);
    buf_release(&want);
}

static cJSON *build(void) {
    cJSON *root = doc_new(), *rows = doc_arr(root, "rows"), *row = doc_obj(rows, NULL);
    doc_put_str(row, "name", "x");
    doc_put_str(row, "none", NULL);
    doc_put_i64(row, "small", -(INT64_C(1) << 53));
    doc_put_i64(row, "large", INT64_MAX);
    doc_put_i64(row, "least", INT64_MIN);
    doc_put_num(row, "third", 1.0 / 3);
    doc_put_num(row, "nan", (double)NAN);
    doc_put_bool(row, "yes", true);
    doc_put_copy(root, "copy", row);
    doc_put_copy(root, "absent", NULL);
    doc_put_i64(doc_arr(root, "list"), NULL, 5);
    return root;
}
static const char built[] =
    "{\"name\":\"x\",\"none\":null,\"small\":-9007199254740992,\"large\":9223372036854775807,"
    "\"least\":-9223372036854775808,\"third\":0.333333333,\"nan\":null,\"yes\":true}";

static void test_building(void) {
    struct err e = {0};
    struct buf b = {0}, want = {0};
    cJSON *j = build();
    CHECK_OK(doc_print_line(j, &b, &e));
    buf_fmt(&want, "{\"rows\":[%s],\"copy\":%s,\"list\":[5]}", built, built);
    CHECK_EQ_STR(b.data, want.data);
    cJSON_Delete(j);
    buf_release(&b);
    buf_release(&want);
}

static int left; /* allocations that succeed */
static void *refusing(size_t n) {
    if (left-- > 0) return malloc(n);
    errno = ENOMEM;
    return NULL;
}

/* Checks that parsing, building and printing report the failure of any allocation. */
static void test_memory_refused(void) {
    cJSON_Hooks hooks = {refusing, free};
    struct err e = {0};
    int n_build = 0, n_parse = 0;
    cJSON_InitHooks(&hooks);
    for (int rc = 1; rc; n_build++) {
        struct buf b = {0};
        left = n_build;
        cJSON *j = build();
        if ((rc = doc_print(j, &b, &e))) CHECK(rc == ERR_SYS && strstr(e.msg, "out of memory"));
        cJSON_Delete(j);
        buf_release(&b);
    }
    for (int rc = 1; rc; n_parse++) {
        cJSON *j;
        left = n_parse;
        if ((rc = parse(&j, built, &e))) CHECK(rc == ERR_SYS && strstr(e.msg, "a.json: out of"));
        cJSON_Delete(j);
    }
    cJSON_InitHooks(NULL);
    CHECK(n_build > 30 && n_parse > 15);
}

int main(void) {
    RUN(test_asking);
    RUN(test_refused);
    RUN(test_depth);
    RUN(test_layout);
    RUN(test_building);
    RUN(test_memory_refused);
    return check_done();
}
