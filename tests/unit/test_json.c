// SPDX-License-Identifier: MIT
/* tests/unit/test_json.c - parsing of valid and hostile JSON, exact integers, and the writer's
 * output. */
#include <math.h>
#include <time.h>

#include "base/attr.h"
#include "base/json.h"
#include "tests/check.h"

static int parse(struct json **j, const char *text, struct err *e) {
    return json_parse(j, text, strlen(text), "a.json", e);
}

static void test_reading(void) {
    struct err e = {0};
    struct json *j;
    CHECK_OK(parse(
        &j,
        " {\"a\": [1, 2.5, \"x\\u00e9\\ud83d\\ude00\\n\"], \"A\": true, \"n\": null, \"o\": {}} \n",
        &e));
    CHECK(json_type(j) == JSON_OBJ);
    CHECK_EQ_I64(json_len(j), 4);
    const struct json *a = json_get(j, "a"), *c = json_first(a);
    CHECK(json_type(a) == JSON_ARR && json_len(a) == 3);
    CHECK_CLOSE(json_num(c, -1), 1, 0);
    c = json_next(c);
    CHECK_CLOSE(json_num(c, -1), 2.5, 0);
    CHECK(json_str(c) == NULL);
    c = json_next(c);
    CHECK_EQ_STR(json_str(c), "x\xc3\xa9\xf0\x9f\x98\x80\n");
    CHECK(json_next(c) == NULL);
    CHECK(json_bool(json_get(j, "A"), false)); /* case matters */
    CHECK_EQ_STR(json_name(json_next(json_first(j))), "A");
    CHECK_EQ_STR(json_name(json_first(a)), ""); /* an element of an array */
    CHECK(json_type(json_get(j, "n")) == JSON_NULL && json_type(json_get(j, "o")) == JSON_OBJ);
    CHECK(json_get(j, "zz") == NULL && json_get(a, "a") == NULL &&
          json_first(json_get(j, "o")) == NULL);
    json_free(j);
}

static void test_missing_nodes(void) {
    int64_t v = 5;
    CHECK(json_type(NULL) == JSON_NULL && !json_get(NULL, "x") && !json_first(NULL));
    CHECK(!json_next(NULL) && !json_name(NULL) && json_len(NULL) == 0 && !json_str(NULL));
    CHECK(json_num(NULL, 3) == 3 && json_bool(NULL, true) && !json_i64(NULL, &v) && v == 5);
    json_free(NULL);
}

static void test_exact_integers(void) {
    static const struct {
        const char *text;
        bool ok;
        int64_t v;
    } t[] = {{"0", true, 0},
             {"-7", true, -7},
             {"1e3", true, 1000},
             {"1.5", false, 0},
             {"\"1\"", false, 0},
             {"9007199254740991", true, 9007199254740991},
             {"1e300", false, 0},
             {"-9007199254740991", true, -9007199254740991},
             {"9223372036854775807", false, 0},
             {"1e999", false, 0},
             {"true", false, 0}};
    struct err e = {0};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct json *j;
        int64_t v = 0;
        CHECK_OK(parse(&j, t[i].text, &e));
        if (json_i64(j, &v) != t[i].ok || v != t[i].v)
            CHECK_FAIL("%s -> %lld", t[i].text, (long long)v);
        json_free(j);
    }
}

static void test_refuses(void) {
    static const struct {
        const char *text, *why;
    } t[] = {{"", "ends too early"},
             {"{", "a.json: line 1"},
             {"{\"a\":1,", "a.json: line 1"},
             {"[1,\n2,]", "line 2"},
             {"{\"a\" 1}", "not valid"},
             {"{'a':1}", "not valid"},
             {"{a:1}", "not valid"},
             {"[1] x", "line 1, column 5: something follows"},
             {"[1][2]", "something follows"},
             {"\"abc", "ends inside a string"},
             {"\"abc\\", "ends inside a string"},
             {"\"abc\\\"", "ends inside a string"},
             {"\"a\\x\"", "not valid"},
             {"\"a\nb\"", "control character"},
             {"\"a\\u0000b\"", "\\u0000"},
             {"{\"\\u0000\":1}", "\\u0000"},
             {"\"\\ud800\"", "not valid"},
             {"\"\xff\"", "invalid UTF-8"},
             {"\"\xc0\xaf\"", "invalid UTF-8"},
             {"\"\xed\xa0\x80\"", "invalid UTF-8"},
             {"\"\xf4\x90\x80\x80\"", "invalid UTF-8"},
             {"\"\xe2\x82\"", "invalid UTF-8"},
             {"nul", "not valid"},
             {"NaN", "not valid"},
             {"[1 2]", "not valid"},
             {"]", "not valid"},
             {"{\"a\":1,\"b\":{\"x\":1,\"y\":2,\"x\":3}}", "\"x\" occurs twice"},
             {"[{\"a\":1,\"\\u0061\":2}]", "\"a\" occurs twice"},
             {"{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1,\"10\":1,"
              "\"3\":1}",
              "\"3\" occurs twice"}};
    struct err e = {0};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct json *j = NULL;
        int rc = parse(&j, t[i].text, &e);
        if (rc != ERR_DATA || j || !strstr(e.msg, t[i].why))
            CHECK_FAIL("%s: code %d, \"%s\"", t[i].text, rc, rc ? e.msg : "");
        json_free(j);
    }
    struct json *j;
    CHECK_ERR(json_parse(&j, "[1\0]", 4, "a.json", &e), ERR_DATA, "NUL byte");
    CHECK_OK(json_parse(&j, "\"\\\\u0000\"", 9, "a.json", &e)); /* an escaped backslash */
    CHECK_EQ_STR(json_str(j), "\\u0000");
    json_free(j);
    CHECK_OK(json_parse(&j, "[1]]]", 3, "a.json", &e)); /* only len bytes are read */
    json_free(j);
    CHECK_ERR(json_read(&j, "no/such.json", 100, &e), ERR_USAGE, "no/such.json");
}

/* Tests numbers and texts that Python's json.loads accepts, and ones it rejects. */
static void test_python(void) {
    static const char text[] = "{\"a\":[NaN,Infinity,-Infinity,-1],\"b\":1,\"c\":2,\"b\":3}";
    static const char *const no[] = {"nan",     "inf",        "+Infinity", "-NaN",
                                     "Infinit", "-Infinityx", "[NaN"};
    struct err e = {0};
    struct json *j;
    int64_t v;
    CHECK_ERR(parse(&j, text, &e), ERR_DATA, "not valid");
    CHECK_OK(json_parse_py(&j, text, sizeof text - 1, "a.json", &e));
    const struct json *x = json_first(json_get(j, "a"));
    CHECK(json_num(x, 7) > 6 && json_type(x) == JSON_NUM && !json_is_int(x) && !json_i64(x, &v));
    x = json_next(x);
    CHECK(isinf(json_num(x, 0)) && json_num(x, 0) > 0 && !json_is_int(x) && !json_i64(x, &v));
    x = json_next(x);
    CHECK(isinf(json_num(x, 0)) && json_num(x, 0) < 0);
    CHECK_CLOSE(json_num(json_next(x), 0), -1.0, 0);
    CHECK_EQ_I64(json_len(j), 3);
    CHECK_CLOSE(json_num(json_get(j, "b"), 0), 3.0, 0);
    json_free(j);
    for (size_t i = 0; i < COUNT_OF(no); i++)
        if (json_parse_py(&j, no[i], strlen(no[i]), "a.json", &e) != ERR_DATA)
            CHECK_FAIL("%s was taken", no[i]);
}

static void test_depth(void) {
    struct err e = {0};
    struct json *j;
    for (int deep = 63; deep <= 66; deep++) {
        struct buf b = {0};
        for (int i = 0; i < deep; i++) buf_str(&b, i % 2 ? "{\"a\":" : "[");
        buf_chr(&b, '1');
        for (int i = deep; i-- > 0;) buf_chr(&b, i % 2 ? '}' : ']');
        int rc = parse(&j, b.data, &e);
        CHECK_EQ_I64(rc, deep <= 64 ? 0 : ERR_DATA);
        json_free(j);
        buf_release(&b);
    }
    struct buf b = {0};
    for (int i = 0; i < 1000000; i++) buf_chr(&b, '[');
    CHECK_ERR(parse(&j, b.data, &e), ERR_DATA, "column 65: nested deeper than 64");
    buf_release(&b);
}

static void test_big_object_is_linear(void) {
    struct buf b = {0};
    struct err e = {0};
    buf_chr(&b, '{');
    for (int i = 0; i < 250000; i++) buf_fmt(&b, "%s\"token %d\":%d", i ? "," : "", i, i);
    buf_chr(&b, '}');
    clock_t t0 = clock();
    struct json *j;
    CHECK_OK(parse(&j, b.data, &e));
    int64_t n = json_len(j);
    CHECK_EQ_I64(n, 250000);
    json_free(j);
    b.len--;
    buf_str(&b, ",\"token 3\":1}");
    CHECK_ERR(parse(&j, b.data, &e), ERR_DATA, "\"token 3\" occurs twice");
    double s = (double)(clock() - t0) / CLOCKS_PER_SEC; /* 0.1 s; a quadratic check takes minutes */
    if (s > 10) CHECK_FAIL("%.1f s", s);
    buf_release(&b);
}

/* Checks that numbers keep their spelling; that on request the last of several duplicate names
 * wins, at the position of the first, as in Python; and that unpaired surrogates become three
 * bytes. */
static void test_values(void) {
    static const char text[] = "{\"a\": 1.0, \"b\": 12345678901234567890123, \"a\": [-1e-07], "
                               "\"s\": \"\\ud800\\u0000\"} x";
    static const struct json_opts lax = {.any_text = true, .last_wins = true};
    static const struct json_opts strict = {0};
    struct arena a;
    struct buf b = {0};
    struct err e = {0};
    const struct json *j;
    size_t n, used;
    arena_init(&a);
    CHECK_ERR(json_parse_in(&j, &a, text, sizeof text - 1, &strict, "a.json", &used, &e), ERR_DATA,
              "surrogate");
    CHECK_ERR(json_parse_in(&j, &a, text, sizeof text - 1, &lax, "a.json", NULL, &e), ERR_DATA,
              "something follows");
    CHECK_OK(json_parse_in(&j, &a, text, sizeof text - 1, &lax, "a.json", &used, &e));
    CHECK_EQ_I64(used, sizeof text - 3);
    CHECK_EQ_I64(json_len(j), 3);
    CHECK_EQ_STR(json_num_text(json_get(j, "b")), "12345678901234567890123");
    CHECK(json_is_int(json_get(j, "b")) && !json_is_int(json_first(json_get(j, "a"))));
    const char *s = json_strn(json_get(j, "s"), &n);
    CHECK(n == 4 && memcmp(s, "\xed\xa0\x80\0", 4) == 0);
    static const struct json_opts mend = {.mend = true, .last_wins = true};
    CHECK_OK(json_parse_in(&j, &a, text, sizeof text - 1, &mend, "a.json", &used, &e));
    CHECK_EQ_STR(json_str(json_get(j, "s")), "\xef\xbf\xbd\xc0\x80");
    char copy[16];
    snprintf(copy, sizeof copy, "%s", json_str(json_get(j, "s")));
    CHECK(json_unmend(copy, strlen(copy)) == 4 && memcmp(copy, "\xef\xbf\xbd\0", 4) == 0);
    struct buf again = {0};
    json_write(&again, json_get(j, "s"));
    CHECK_EQ_STR(again.data, "\"\xef\xbf\xbd\\u0000\"");
    buf_release(&again);
    s = json_raw(json_get(j, "s"), &n);
    CHECK(n == 12 && memcmp(s, "\\ud800\\u0000", 12) == 0);
    struct json *o = json_new(&a, JSON_OBJ), *l = json_new(&a, JSON_ARR);
    json_push(&a, l, json_get(j, "b"));
    json_push(&a, l, json_new_bool(&a, true));
    json_push(&a, l, NULL);
    json_put(&a, o, "x", 1, json_new_str(&a, "\"", 1));
    json_put(&a, o, "y", 1, json_first(j));
    json_put(&a, o, "x", 1, l);
    json_write(&b, o);
    CHECK_EQ_STR(b.data, "{\"x\":[12345678901234567890123,true,null],\"y\":[-1e-07]}");
    buf_reset(&b);
    json_write_spaced(&b, o);
    CHECK_EQ_STR(b.data, "{\"x\": [12345678901234567890123, true, null], \"y\": [-1e-07]}");
    buf_release(&b);
    arena_release(&a);
}

static void test_writer(void) {
    struct buf b = {0};
    struct jw w;
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    jw_str(&w, "s", "q\"\\\n\x01\x7f/");
    jw_str(&w, "none", NULL);
    jw_i64(&w, "i", INT64_MIN);
    jw_u64(&w, "u", UINT64_MAX);
    jw_arr(&w, "a");
    jw_num(&w, NULL, 0.1);
    jw_num(&w, NULL, HUGE_VAL);
    jw_bool(&w, NULL, true);
    jw_obj(&w, NULL);
    jw_end(&w);
    jw_end(&w);
    jw_null(&w, "z");
    jw_end(&w);
    CHECK_EQ_STR(b.data,
                 "{\"s\":\"q\\\"\\\\\\n\\u0001\x7f/\",\"none\":null,\"i\":-9223372036854775808,"
                 "\"u\":18446744073709551615,\"a\":[0.1,null,true,{}],\"z\":null}");
    buf_reset(&b);
    jw_init(&w, &b, true);
    jw_obj(&w, NULL);
    jw_i64(&w, "a", 1);
    jw_arr(&w, "b");
    jw_i64(&w, NULL, 2);
    jw_end(&w);
    jw_arr(&w, "c");
    jw_end(&w);
    jw_end(&w);
    CHECK_EQ_STR(b.data, "{\n  \"a\": 1,\n  \"b\": [\n    2\n  ],\n  \"c\": []\n}");
    buf_release(&b);
}

static void test_quote_repairs_utf8(void) {
    static const char bad[] = "a\xff\xe2\x82z\xc3\xa9\xed\xa0\x80\0b\xf0\x9f";
    struct buf b = {0};
    json_quote(&b, bad, sizeof bad - 1);
    /* one replacement per broken piece, like Python's decode(errors="replace") */
    CHECK_EQ_STR(b.data, "\"a\xef\xbf\xbd\xef\xbf\xbdz\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                         "\\u0000b\xef\xbf\xbd\"");
    buf_release(&b);
}

/* Tests lookups in objects of every size up to some hundreds, read and built, against a walk
 * through their members, which can be replaced. */
static void test_many_members(void) {
    struct arena a;
    struct err e;
    arena_init(&a);
    for (int n = 0; n < 300; n += n < 40 ? 1 : 37) {
        struct json *built = json_new(&a, JSON_OBJ), *outer = json_new(&a, JSON_OBJ);
        const struct json *read;
        struct buf text = {0};
        char name[24];
        for (int i = 0; i < n; i++) {
            snprintf(name, sizeof name, "n%d", i * 7919 % 1009);
            json_put(&a, built, name, strlen(name), json_new_bool(&a, true));
            json_put(&a, built, name, strlen(name), json_new_str(&a, name, strlen(name)));
        }
        json_put(&a, outer, "in", 2, built);
        json_write(&text, outer);
        const struct json_opts first = {.first_wins = true};
        CHECK_OK(json_parse_in(&read, &a, text.data, text.len, &first, "x", NULL, &e));
        const struct json *both[] = {json_get(outer, "in"), json_get(read, "in")};
        for (int k = 0; k < 2; k++) {
            int seen = 0;
            for (const struct json *m = json_first(both[k]); m; m = json_next(m), seen++) {
                CHECK(json_get(both[k], json_name(m)) == m);
                CHECK_EQ_STR(json_str(m), json_name(m));
            }
            CHECK_EQ_I64(seen, n);
            CHECK_EQ_I64(json_len(both[k]), n);
            CHECK(json_get(both[k], "n1009") == NULL && json_get(both[k], "") == NULL);
        }
        buf_release(&text);
    }
    arena_release(&a);
}

/* Checks that levels beyond the writer's limit are left out and the text is still JSON. */
static void test_deep_writer(void) {
    struct buf b = {0};
    struct jw w;
    struct json *j;
    struct err e;
    jw_init(&w, &b, false);
    for (int i = 0; i < 70; i++) jw_obj(&w, "a");
    for (int i = 0; i < 71; i++) jw_end(&w);
    CHECK_OK(json_parse(&j, b.data, b.len, "deep", &e));
    int n = 0;
    for (const struct json *x = j; x; x = json_get(x, "a")) n++;
    CHECK_EQ_I64(n, 64);
    json_free(j);
    buf_release(&b);
}

int main(void) {
    RUN(test_reading);
    RUN(test_missing_nodes);
    RUN(test_exact_integers);
    RUN(test_refuses);
    RUN(test_python);
    RUN(test_depth);
    RUN(test_big_object_is_linear);
    RUN(test_values);
    RUN(test_writer);
    RUN(test_many_members);
    RUN(test_deep_writer);
    RUN(test_quote_repairs_utf8);
    return check_done();
}
