// SPDX-License-Identifier: MIT
/* tests/unit/test_roundtrip.c - a tool call rendered, parsed and rendered again: with our own
 * templates the second rendering is the first, whatever the value. */
#include "tests/check.h"
#include "text/chat.h"
#include "text/own.h"
#include "text/toolfmt.h"

static struct err e;
static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"put_value\",\"description\":\"d\","
    "\"parameters\":{\"type\":\"object\",\"properties\":{\"tag\":{\"type\":\"string\"},\"v\":%s},"
    "\"required\":[\"tag\",\"v\"]}}}]";

/* The prompt of a question and a call, `call` being {"name", "arguments"}. */
static void prompt(const struct chat *c, const char *decl, const char *call, struct buf *out) {
    struct buf conv = {0};
    buf_fmt(&conv,
            "{\"messages\":[{\"role\":\"user\",\"content\":\"Zq7\"},{\"role\":\"assistant\","
            "\"content\":\"\",\"tool_calls\":[{\"id\":\"call00001\",\"type\":\"function\","
            "\"function\":%s}]}],\"tools\":%s}",
            call, decl);
    CHECK_OK(chat_render_text(c, conv.data, conv.len, "{\"bos_token\":\"\",\"eos_token\":\"</s>\"}",
                              false, out, &e));
    buf_release(&conv);
}

static void one(const char *tmpl, const char *format, const char *type, const char *value) {
    const struct own_template *t = own_find(tmpl);
    struct chat *c;
    struct toolparse *p;
    struct buf decl = {0}, call = {0}, first = {0}, parsed = {0}, again = {0}, second = {0};
    CHECK_OK(chat_new(&c, t->text, tmpl, "", "</s>", &e));
    const char *gap = strstr(tools, "%s");
    buf_add(&decl, tools, (size_t)(gap - tools));
    buf_str(&decl, type);
    buf_str(&decl, gap + 2);
    buf_fmt(&call, "{\"name\":\"put_value\",\"arguments\":{\"tag\":\"t0\",\"v\":%s}}", value);
    prompt(c, decl.data, call.data, &first);
    char *turn = first.data ? memmem(first.data, first.len, "Zq7", 3) : NULL;
    CHECK(turn != NULL);
    if (!turn) return;
    CHECK_OK(toolparse_new(&p, toolfmt_find(format), decl.data, decl.len, TOOL_THINK_UNKNOWN, &e));
    toolparse_feed(p, turn + 3, first.len - (size_t)(turn + 3 - first.data));
    CHECK_OK(toolparse_finish(p, &parsed, &e));
    buf_chr(&parsed, 0);
    static const char from[] = "\"tool_calls\": [", to[] = "], \"problems\": ";
    char *a = strstr(parsed.data, from), *b = a ? strstr(a, to) : NULL;
    if (a && b) {
        a += sizeof from - 1;
        buf_add(&again, a, (size_t)(b - a));
        if (again.len) prompt(c, decl.data, again.data, &second);
    }
    if (second.len != first.len || memcmp(first.data, second.data, first.len) != 0)
        CHECK_FAIL("%s, %s %s: parsed as %s", tmpl, type, value, parsed.data);
    toolparse_free(p);
    chat_free(c);
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
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
            one(formats[i][0], formats[i][1], values[k][0], values[k][1]);
}

int main(void) {
    RUN(test_values);
    return check_done();
}
