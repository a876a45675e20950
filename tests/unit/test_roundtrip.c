// SPDX-License-Identifier: MIT
/* tests/unit/test_roundtrip.c - a tool call rendered, parsed and rendered again: with our own
 * templates the second rendering is the first, whatever the value; with the vendors' templates,
 * where
 * ../shared/golden/templates is present, in every case that the reference reads back. */
#include "base/io.h"
#include "tests/check.h"
#include "template/chat.h"
#include "template/chat_vars.h"
#include "template/own.h"
#include "chat/toolfmt.h"

static struct err e;
static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"put_value\",\"description\":\"d\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"tag\":{\"type\":\"string\"},\"v\":%s},"
    "\"required\":[\"tag\",\"v\"]}}}]";

/* Renders the prompt of a question and a call; `call` is {"name", "arguments"}. */
static void prompt(const struct chat *c, const char *decl, const char *call, struct buf *out) {
    struct buf conv = {0};
    buf_fmt(&conv,
            "{\"messages\":[{\"role\":\"user\",\"content\":\"Zq7\"},{\"role\":\"assistant\","
            "\"content\":\"\",\"tool_calls\":[{\"id\":\"call00001\",\"type\":\"function\","
            "\"function\":%s}]}],\"tools\":%s}",
            call, decl);
    CHECK_OK(chat_render_text(c, conv.data, conv.len,
                              "{\"bos_token\":\"<BOS>\",\"eos_token\":\"<EOS>\"}", false, out, &e));
    buf_release(&conv);
}

/* want: expected text after the user's text in the first rendering, if a string. */
static void one(const struct chat *c, const char *tmpl, const char *format, const char *type,
                const char *value, struct jval want) {
    struct toolparse *p;
    struct buf decl = {0}, call = {0}, first = {0}, parsed = {0}, again = {0}, second = {0};
    const char *gap = strstr(tools, "%s");
    buf_add(&decl, tools, (size_t)(gap - tools));
    buf_str(&decl, type);
    buf_str(&decl, gap + 2);
    buf_fmt(&call, "{\"name\":\"put_value\",\"arguments\":{\"tag\":\"t0\",\"v\":%s}}", value);
    prompt(c, decl.data, call.data, &first);
    char *turn = first.data ? memmem(first.data, first.len, "Zq7", 3) : NULL;
    CHECK(turn != NULL);
    if (!turn) return;
    if (want.tag == JT_STR)
        CHECK(first.len - (size_t)(turn + 3 - first.data) == want.len &&
              memcmp(turn + 3, want.u.s, want.len) == 0);
    CHECK_OK(toolparse_new(&p, toolfmt_find(format), decl.data, decl.len, TOOL_THINK_UNKNOWN, &e));
    toolparse_feed(p, turn + 3, first.len - (size_t)(turn + 3 - first.data));
    json_write_spaced(&parsed, toolparse_finish(p));
    buf_chr(&parsed, 0);
    static const char from[] = "\"tool_calls\": [", to[] = "], \"problems\": ";
    char *a = strstr(parsed.data, from), *b = a ? strstr(a, to) : NULL;
    if (a && b) {
        a += sizeof from - 1;
        buf_add(&again, a, (size_t)(b - a));
        if (again.len) prompt(c, decl.data, again.data, &second);
    }
    if (second.len != first.len || memcmp(first.data, second.data, first.len) != 0)
        CHECK_FAIL("%s, %s %.300s: parsed as %.300s", tmpl, type, value, parsed.data);
    toolparse_free(p);
    buf_release(&decl);
    buf_release(&call);
    buf_release(&first);
    buf_release(&parsed);
    buf_release(&again);
    buf_release(&second);
}

static void test_values(void) {
    static const char *const formats[][2] = {
        {"qwen3.5", "qwen-xml"}, {"qwen3.5-small", "qwen-xml"}, {"qwen3", "hermes-json"},
        {"gemma4", "gemma4"},    {"gemma4-small", "gemma4"},    {"mistral-small", "mistral-args"}};
    static const char *const values[][2] = {
        {"{\"type\":\"string\"}", "\"text\""},
        {"{\"type\":\"string\"}", "\"\""},
        {"{\"type\":\"string\"}", "\"7\""},
        {"{\"type\":\"string\"}", "\"True\""},
        {"{\"type\":\"string\"}", "\"  two\\n lines \\n\""},
        {"{\"type\":\"string\"}", "\"</parameter> and </tool_call> and [ARGS] {x:1}\""},
        {"{\"type\":\"string\"}", "\"\\u65e5\\u672c \\ud83d\\ude00 <b>&'\\\\\""},
        {"{\"type\":\"string\"}", "\"</think> in a value\""},
        {"{\"type\":\"integer\"}", "0"},
        {"{\"type\":\"integer\"}", "123456789012345678901234567890"},
        {"{\"type\":\"number\"}", "1.0"},
        {"{\"type\":\"number\"}", "-1e-07"},
        {"{\"type\":\"boolean\"}", "false"},
        {"{\"type\":[\"string\",\"null\"]}", "null"},
        {"{\"type\":\"array\"}", "[1,\"a\",[true,null],{\"k\":2.5}]"},
        {"{\"type\":\"array\"}", "[]"},
        {"{\"type\":\"object\"}", "{\"a\":{\"b\":[]},\"c\":\"d\"}"},
        {"{\"type\":\"object\"}", "{}"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        struct chat *c;
        CHECK_OK(chat_new(&c, own_find(formats[i][0])->text, formats[i][0], "", "</s>", &e));
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
            one(c, formats[i][0], formats[i][1], values[k][0], values[k][1], jv_missing());
        chat_free(c);
    }
}

static void json_of(struct jval v, struct buf *out) {
    struct arena arena;
    struct jinja_err je = {0};
    struct jctx c = {.a = &arena, .err = &je, .max_out = 1 << 24, .max_steps = UINT64_MAX};
    arena_init(&arena);
    buf_reset(out);
    if (v.tag == JT_DICT && chat_member(v, "times").tag == JT_INT) { /* a repeated text */
        struct jval piece = chat_member(v, "repeat");
        size_t m = jx_mark(&c);
        for (int64_t n = chat_member(v, "times").u.i; n > 0; n--) jx_add(&c, piece.u.s, piece.len);
        v = jx_take(&c, m);
    }
    jfmt_json(&c, v, false, jv_missing(), jv_missing(), false);
    buf_add(out, c.out.data, c.out.len);
    buf_release(&c.out);
    arena_release(&arena);
}

/* Tests every case that the reference parser reads back, among them the 20 of 22 kB. */
static void test_golden_cases(void) {
    static const char path[] = "tests/golden/templates/toolcall_roundtrip.json";
    static const char dir[] = "../shared/golden/templates/jinja";
    char *text, last[200] = "";
    size_t len;
    struct jdoc doc;
    struct chat *c = NULL;
    struct buf type = {0}, value = {0};
    int n = 0, n_long = 0;
    if (!io_is_dir(dir)) {
        fprintf(stderr, "SKIP: %s is not here\n", dir);
        return;
    }
    CHECK_OK(io_read_file(&text, &len, path, 1 << 24, &e));
    CHECK_OK(jdoc_parse(&doc, text, len, path, &e));
    struct jval cases = chat_member(doc.root, "cases");
    for (uint32_t i = 0; i < cases.u.list->n; i++) {
        struct jval k = cases.u.list->v[i], t = chat_member(k, "template"),
                    f = chat_member(k, "format"), ty = chat_member(k, "type"),
                    turn = chat_member(k, "turn");
        char name[200], format[64];
        if (!jv_is(chat_member(k, "result"), "ok")) continue;
        snprintf(name, sizeof name, "%.*s", (int)t.len, t.u.s);
        snprintf(format, sizeof format, "%.*s", (int)f.len, f.u.s);
        if (strcmp(name, last) != 0) {
            char file[400], *src;
            size_t n_src;
            snprintf(file, sizeof file, "%s/%s.jinja", dir, name);
            CHECK_OK(io_read_file(&src, &n_src, file, 1 << 24, &e));
            chat_free(c);
            CHECK_OK(chat_new(&c, src, name, "", "</s>", &e));
            free(src);
            snprintf(last, sizeof last, "%s", name);
        }
        buf_reset(&type);
        buf_str(&type, "{}");
        if (ty.tag != JT_NONE && ty.tag != JT_MISSING) {
            json_of(ty, &value);
            buf_reset(&type);
            buf_fmt(&type, "{\"type\":%s}", value.data);
        }
        json_of(chat_member(k, "value"), &value);
        one(c, name, format, type.data, value.data, turn);
        n++;
        n_long += turn.tag != JT_STR;
    }
    fprintf(stderr, "%d calls rendered, parsed and rendered again\n", n);
    CHECK_EQ_I64(n, 759);
    CHECK_EQ_I64(n_long, 20);
    chat_free(c);
    buf_release(&type);
    buf_release(&value);
    jdoc_release(&doc);
    free(text);
}

int main(void) {
    RUN(test_values);
    RUN(test_golden_cases);
    return check_done();
}
