// SPDX-License-Identifier: MIT
/* tests/unit/test_toolfmt.c - parsing tool calls. tests/golden/templates/toolcall_roundtrip.json
 * holds 780 assistant turns rendered by transformers from 20 templates, with the value in the call;
 * the other texts were written manually from each format's description. */
#include "base/io.h"
#include "base/mem.h"
#include "models/arch.h"
#include "tests/check.h"
#include "template/chat_vars.h"
#include "chat/toolfmt.h"

static struct err e;

/* Returns whether two values are deeply equal, including types: 1 is not 1.0, true is not 1. The
 * order of keys does not matter. */
static bool strict(struct jval a, struct jval b) {
    struct arena arena;
    struct jctx c = {.a = &arena, .max_out = 1 << 30, .max_steps = UINT64_MAX};
    if (a.tag != b.tag) return false;
    if (a.tag == JT_DICT) {
        bool same = a.u.dict->n == b.u.dict->n;
        for (uint32_t i = 0; same && i < a.u.dict->n; i++) {
            struct jval *x = jdict_find(b.u.dict, a.u.dict->e[i].k.u.s, a.u.dict->e[i].k.len);
            same = x && strict(a.u.dict->e[i].v, *x);
        }
        return same;
    }
    if (a.tag == JT_LIST) {
        bool same = a.u.list->n == b.u.list->n;
        for (uint32_t i = 0; same && i < a.u.list->n; i++)
            same = strict(a.u.list->v[i], b.u.list->v[i]);
        return same;
    }
    arena_init(&arena);
    bool same = jv_equal(&c, a, b);
    arena_release(&arena);
    return same;
}

/* Calls as toolparse_part gives them. */
struct parts {
    struct buf sure[16]; /* certain part of each call's arguments */
    char *name[16];
    int n_done, n_pieces;
};

/* Reads the certain parts of calls, which may only grow, and not after the call is complete. */
static void take_parts(const char *format, struct toolparse *p, struct parts *c) {
    struct buf name = {0}, args = {0};
    size_t n;
    bool done = true;
    while (done && c->n_done < 16 && toolparse_part(p, &name, &args, &n, &done)) {
        struct buf *sure = &c->sure[c->n_done];
        if (n > args.len || n < sure->len ||
            (sure->len && memcmp(args.data, sure->data, sure->len) != 0))
            CHECK_FAIL("%s: a part \"%s\", then \"%s\" with %zu bytes", format, sure->data,
                       args.data, n);
        if (c->name[c->n_done]) CHECK_EQ_STR(name.data, c->name[c->n_done]);
        free(c->name[c->n_done]);
        c->name[c->n_done] = xstrdup(name.data);
        c->n_pieces += n > sure->len;
        buf_reset(sure);
        buf_add(sure, args.data, n);
        if (done) CHECK_EQ_I64(n, args.len);
        struct json *whole; /* always a valid value */
        CHECK_OK(json_parse(&whole, args.data, args.len, "parts", &e));
        json_free(whole);
        c->n_done += done;
    }
    buf_release(&name);
    buf_release(&args);
}

/* Checks that the final calls begin with the parts that were certain while streaming. */
static void check_parts(const char *format, const struct json *calls, struct parts *c) {
    struct buf text = {0};
    int i = 0;
    for (const struct json *k = json_first(calls); k && i < 16; k = json_next(k), i++) {
        const struct buf *sure = &c->sure[i];
        buf_reset(&text);
        json_write_spaced(&text, json_get(k, "arguments"));
        const bool whole = i < c->n_done;
        if (sure->len && (sure->len > text.len || memcmp(text.data, sure->data, sure->len) != 0 ||
                          (whole && sure->len != text.len)))
            CHECK_FAIL("%s: a part \"%s\" of \"%s\"", format, sure->data, text.data);
        if (c->name[i]) CHECK_EQ_STR(c->name[i], json_str(json_get(k, "name")));
    }
    CHECK(i >= c->n_done);
    for (i = 0; i < 16; i++) {
        buf_release(&c->sure[i]);
        free(c->name[i]);
    }
    buf_release(&text);
}

/* Feeds text in pieces of `step` bytes. Streamed content may only grow and must be a prefix of the
 * final content; the same holds for parts of calls. */
static void parse(const char *format, const char *tools, const char *s, size_t n, size_t step,
                  enum tool_think think, struct buf *out) {
    struct toolparse *p;
    size_t shown = 0;
    struct buf streamed = {0};
    struct parts parts = {.n_done = 0};
    buf_reset(out);
    CHECK_OK(toolparse_new(&p, toolfmt_find(format), tools, tools ? strlen(tools) : 0, think, &e));
    for (size_t i = 0; i < n; i += step) {
        size_t len;
        toolparse_feed(p, s + i, n - i < step ? n - i : step);
        const char *c = toolparse_content(p, &len);
        CHECK(len >= shown);
        shown = len;
        buf_reset(&streamed);
        buf_add(&streamed, c, len);
        take_parts(format, p, &parts);
    }
    const struct json *result = toolparse_finish(p);
    json_write_spaced(out, result);
    check_parts(format, json_get(result, "tool_calls"), &parts);
    size_t n_content;
    const char *content = json_strn(json_get(result, "content"), &n_content);
    if (n_content < streamed.len ||
        (streamed.len && memcmp(content, streamed.data, streamed.len) != 0))
        CHECK_FAIL("%s: streamed \"%s\", in the end %s", format, streamed.data, out->data);
    toolparse_free(p);
    buf_release(&streamed);
}

static void tools_text(struct jval type, char *out, size_t cap) {
    char t[80] = "{}";
    if (type.tag == JT_STR) snprintf(t, sizeof t, "{\"type\": \"%.*s\"}", (int)type.len, type.u.s);
    if (type.tag == JT_LIST)
        snprintf(t, sizeof t, "{\"type\": [\"%.*s\", \"%.*s\"]}", (int)type.u.list->v[0].len,
                 type.u.list->v[0].u.s, (int)type.u.list->v[1].len, type.u.list->v[1].u.s);
    snprintf(out, cap,
             "[{\"type\": \"function\", \"function\": {\"name\": \"put_value\", \"parameters\": "
             "{\"type\": \"object\", "
             "\"properties\": {\"tag\": {\"type\": \"string\"}, \"v\": %s}}}}]",
             t);
}

static bool right(struct jval result, struct jval want) {
    struct jval calls = chat_member(result, "tool_calls");
    if (calls.u.list->n != 1) return false;
    struct jval args = chat_member(calls.u.list->v[0], "arguments");
    return jv_is(chat_member(calls.u.list->v[0], "name"), "put_value") && args.u.dict->n == 2 &&
           jv_is(chat_member(args, "tag"), "t0") && strict(want, chat_member(args, "v"));
}

static void test_roundtrip(void) {
    static const char path[] = "tests/golden/templates/toolcall_roundtrip.json";
    char *text, tools[500], format[64];
    size_t len;
    struct jdoc doc, result;
    struct buf whole = {0}, bytes = {0};
    int n_ok = 0, n_reported = 0, n = 0;
    CHECK_OK(io_read_file(&text, &len, path, 1 << 24, &e));
    CHECK_OK(jdoc_parse(&doc, text, len, path, &e));
    struct jval cases = chat_member(doc.root, "cases");
    for (uint32_t i = 0; i < cases.u.list->n; i++) {
        struct jval k = cases.u.list->v[i], turn = chat_member(k, "turn"),
                    f = chat_member(k, "format");
        struct jval id = chat_member(k, "id");
        if (turn.tag != JT_STR) continue; /* "long": its text is not stored */
        n++;
        tools_text(chat_member(k, "type"), tools, sizeof tools);
        snprintf(format, sizeof format, "%.*s", (int)f.len, f.u.s);
        parse(format, tools, turn.u.s, turn.len, turn.len, TOOL_THINK_UNKNOWN, &whole);
        parse(format, tools, turn.u.s, turn.len, 1, TOOL_THINK_UNKNOWN, &bytes);
        CHECK_EQ_STR(bytes.data, whole.data);
        CHECK_OK(jdoc_parse(&result, whole.data, whole.len, "result", &e));
        if (jv_is(chat_member(k, "result"), "ok")) {
            if (right(result.root, chat_member(k, "value")))
                n_ok++;
            else
                CHECK_FAIL("%s %.*s: %.400s", format, (int)id.len, id.u.s, whole.data);
        } else if (chat_member(result.root, "problems").u.list->n) {
            n_reported++;
        } else {
            CHECK_FAIL("%s %.*s is silent: %.400s", format, (int)id.len, id.u.s, whole.data);
        }
        jdoc_release(&result);
    }
    CHECK_EQ_I64(n, 780);
    CHECK_EQ_I64(n_ok, 739);
    CHECK_EQ_I64(n_reported, 41);
    jdoc_release(&doc);
    buf_release(&whole);
    buf_release(&bytes);
    free(text);
}

/* Tests that a text is streamed before it is complete if its tag calls it text, whether or not the
 * tool is declared. */
static void test_flagged(void) {
#define BAR "\xef\xbd\x9c"
    static const struct {
        const char *format, *before, *begins;
    } cases[] = {
        {"dsml",
         "<" BAR "DSML" BAR "function_calls>\n<" BAR "DSML" BAR "invoke name=\"f\">\n<" BAR
         "DSML" BAR "parameter name=\"a\" string=\"true\">",
         "{\"a\": \"12 "},
        {"dsml-v41",
         "<" BAR "DSML" BAR " calls>\n<" BAR "DSML" BAR " invoke name=\"f\">\n<" BAR "DSML" BAR
         " parameter name=\"a\" string=\"true\">",
         "{\"a\": \"12 "},
        {"gcml",
         "<" BAR "GCML" BAR "tool_calls>\n<" BAR "GCML" BAR "invoke name=\"f\">\n<" BAR "GCML" BAR
         "parameter name=\"a\" string=\"true\">",
         "{\"a\": \"12 "},
        {"kimi-k3",
         "<|open|>tools<|sep|><|open|>call tool=\"f\" index=\"1\"<|sep|><|open|>argument "
         "key=\"a\" type=\"string\"<|sep|>",
         "{\"a\": \"12 "},
    };
#undef BAR
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct toolparse *p;
        struct buf text = {0}, name = {0}, args = {0};
        size_t n = 0;
        bool done = false;
        buf_str(&text, cases[i].before);
        for (int k = 0; k < 200; k++) buf_str(&text, "12 ");
        CHECK_OK(toolparse_new(&p, toolfmt_find(cases[i].format), NULL, 0, TOOL_THINK_NONE, &e));
        toolparse_feed(p, text.data, text.len);
        toolparse_content(p, &n);
        CHECK(toolparse_part(p, &name, &args, &n, &done) && !done);
        CHECK_EQ_STR(name.data, "f");
        CHECK(n > 500 && strncmp(args.data, cases[i].begins, strlen(cases[i].begins)) == 0);
        toolparse_free(p);
        buf_release(&text);
        buf_release(&name);
        buf_release(&args);
    }
}

/* Tests lists of calls with a line for each: commas and comments are skipped, and other text is
 * reported. */
static void test_lines(void) {
    static const struct {
        const char *text, *content;
        int n_calls, n_problems;
    } rows[] = {
        {"<function_calls>now()\n# then (this)\nf(a=1) # done</function_calls>", "", 2, 0},
        {"<function_calls>now(),\nf(a=1)</function_calls>", "", 2, 0},
        {"<function_calls>now()\nHello</function_calls>", "Hello</function_calls>", 1, 1},
        {"<function_calls>now()", "", 1, 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t step = 1; step < 100; step += 98) {
            struct toolparse *p;
            const size_t len = strlen(rows[i].text);
            CHECK_OK(toolparse_new(&p, toolfmt_find("python-lines"), NULL, 0, TOOL_THINK_NONE, &e));
            for (size_t at = 0; at < len; at += step)
                toolparse_feed(p, rows[i].text + at, at + step < len ? step : len - at);
            const struct json *r = toolparse_finish(p);
            CHECK_EQ_I64(json_len(json_get(r, "tool_calls")), rows[i].n_calls);
            CHECK_EQ_I64(json_len(json_get(r, "problems")), rows[i].n_problems);
            CHECK_EQ_STR(json_str(json_get(r, "content")), rows[i].content);
            toolparse_free(p);
        }
}

static void test_other_formats(void) {
    static const struct {
        const char *format, *text, *want;
    } cases[] = {
        {"seed-xml",
         "<seed:tool_call>\n<function=f>\n<parameter=a>x</parameter>\n</function>\n</"
         "seed:tool_call>",
         "{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}"},
        {"dsml",
         "<\xef\xbd\x9c"
         "DSML\xef\xbd\x9c"
         "function_calls>\n<\xef\xbd\x9c"
         "DSML\xef\xbd\x9cinvoke name=\"f\">\n"
         "<\xef\xbd\x9c"
         "DSML\xef\xbd\x9cparameter name=\"a\" string=\"true\">7</\xef\xbd\x9c"
         "DSML\xef\xbd\x9cparameter>\n"
         "<\xef\xbd\x9c"
         "DSML\xef\xbd\x9cparameter name=\"b\" string=\"false\">7</\xef\xbd\x9c"
         "DSML\xef\xbd\x9cparameter>\n"
         "</\xef\xbd\x9c"
         "DSML\xef\xbd\x9cinvoke>\n</\xef\xbd\x9c"
         "DSML\xef\xbd\x9c"
         "function_calls>",
         "{\"name\": \"f\", \"arguments\": {\"a\": \"7\", \"b\": 7}}"},
        {"minimax-invoke",
         "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\" string=\"true\">12"
         "</parameter>\n</invoke>\n</minimax:tool_call>",
         "{\"name\": \"f\", \"arguments\": {\"a\": \"12\"}}"},
        {"minicpm-xml", "<function name=\"f\"><param name=\"a\"><![CDATA[<b>]]></param></function>",
         "{\"name\": \"f\", \"arguments\": {\"a\": \"<b>\"}}"},
        {"python-list",
         "<|tool_call_start|>[f(a='it\\'s', n=1, l=[True, None], d={'k': 1.0})]<|tool_call_end|>",
         "{\"name\": \"f\", \"arguments\": {\"a\": \"it's\", \"n\": 1, \"l\": [true, null], \"d\": "
         "{\"k\": 1.0}}}"},
        {"llama-json", "<|python_tag|>brave_search.call(query=\"x y\")<|eom_id|>",
         "{\"name\": \"brave_search\", \"arguments\": {\"query\": \"x y\"}}"},
        {"apertus-list", "<|tools_prefix|>[{\"f\": {\"a\": 1}}]<|tools_suffix|>",
         "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"},
        {"nemotron-list", "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]</TOOLCALL>",
         "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"},
        {"firefunction-list", " functools[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]",
         "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"},
        {"command-r-list",
         "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"a\": "
         "1}}]<|END_ACTION|>",
         "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"},
        {"granite-list", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]",
         "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"},
        {"gigachat", "function call<|role_sep|>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
         "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"},
        {"functionary-v31", "<function=f>{\"a\": 1}</function>",
         "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"},
        {"functionary-v32", ">>>f\n{\"a\": 1}", "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"},
        {"solar",
         "<|tool_call:begin|>id1<|tool_call:name|>f<|tool_call:args|>{\"a\": 1}<|tool_call:end|>",
         "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"},
        {"hermes-json",
         "<tool_call>\n{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}\n</tool_call>",
         "{\"name\": \"f\", \"arguments\": {\"a\": 1}}"},
        {"qwen-xml", "<function=f>\n<parameter=a>\nx\n</parameter>\n</function>",
         "{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}"},
    };
    struct buf out = {0}, bytes = {0};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char want[500];
        size_t n = strlen(cases[i].text);
        parse(cases[i].format, NULL, cases[i].text, n, n, TOOL_THINK_NONE, &out);
        parse(cases[i].format, NULL, cases[i].text, n, 1, TOOL_THINK_NONE, &bytes);
        CHECK_EQ_STR(bytes.data, out.data);
        snprintf(want, sizeof want, "\"content\": \"\", \"reasoning\": \"\", \"tool_calls\": [%s]",
                 cases[i].want);
        if (!strstr(out.data, want))
            CHECK_FAIL("%s: %s, expected %s", cases[i].format, out.data, want);
    }
    buf_release(&out);
    buf_release(&bytes);
}

/* Tests text around calls: reasoning in the family's tags, frames, several calls. */
static void test_families(void) {
#define G "]<]minimax[>["
#define M3_TOOLS                                                                                   \
    "[{\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"l\":{\"type\":\"array\","    \
    "\"items\":{"                                                                                  \
    "\"type\":\"integer\"}},\"s\":{\"type\":\"string\"},\"o\":{\"type\":\"object\","               \
    "\"properties\":{\"item\":{"                                                                   \
    "\"type\":\"string\"}}},\"e\":{\"type\":\"array\"}}}}}]"
    static const struct {
        const char *format, *tools, *text, *want;
    } cases[] = {
        {"hy3", NULL,
         "<think:opensource>plan</think:opensource>\nHello\n<tool_calls:opensource>\n"
         "<tool_call:opensource>f<tool_sep:opensource>\n<arg_key:opensource>a</"
         "arg_key:opensource>\n"
         "<arg_value:opensource>x <b></arg_value:opensource>\n<arg_key:opensource>d</arg_key:"
         "opensource>\n<arg_value:opensource>[1, 2]</arg_value:opensource>\n"
         "</tool_call:opensource>\n<tool_call:opensource>g<tool_sep:opensource>\n"
         "</tool_call:opensource>\n</tool_calls:opensource>",
         "{\"content\": \"Hello\", \"reasoning\": \"plan\", \"tool_calls\": [{\"name\": \"f\", "
         "\"arguments\": {\"a\": \"x <b>\", \"d\": [1, 2]}}, {\"name\": \"g\", \"arguments\": "
         "{}}]"},
        {"hy3-preview", NULL,
         "<think></think><tool_calls>\n<tool_call>f<tool_sep>\n<arg_key>a</arg_key>\n"
         "<arg_value>x</arg_value>\n</tool_call>\n</tool_calls>",
         "{\"content\": \"\", \"reasoning\": \"\", \"tool_calls\": [{\"name\": \"f\", "
         "\"arguments\": "
         "{\"a\": \"x\"}}]"},
        {"minimax-m3", NULL,
         "<mm:think>why</mm:think>Text.\n" G "<tool_call>\n" G "<invoke name=\"f\">" G
         "<a>x </a> y" G "</a>" G "<o>" G "<k>v" G "</k>" G "<n>" G "<item>1" G "</item>" G
         "<item>b" G "</item>" G "</n>" G "</o>" G "</invoke>\n" G "<invoke name=\"g\">" G
         "</invoke>\n" G "</tool_call>",
         "{\"content\": \"Text.\", \"reasoning\": \"why\", \"tool_calls\": [{\"name\": \"f\", "
         "\"arguments\": {\"a\": \"x </a> y\", \"o\": {\"k\": \"v\", \"n\": [1, \"b\"]}}}, "
         "{\"name\": "
         "\"g\", \"arguments\": {}}]"},
        {"minimax-m3", M3_TOOLS,
         G "<tool_call>\n" G "<invoke name=\"f\">" G "<l>" G "<item>7" G "</item>" G "</l>" G
           "<s>7" G "</s>" G "<o>" G "<item>7" G "</item>" G "</o>" G "<e>" G "</e>" G
           "</invoke>\n" G "</tool_call>",
         "{\"content\": \"\", \"reasoning\": \"\", \"tool_calls\": [{\"name\": \"f\", "
         "\"arguments\": "
         "{\"l\": [7], \"s\": \"7\", \"o\": {\"item\": \"7\"}, \"e\": []}}]"},
        {"minimax-m3", NULL, /* closing tags without their guard */
         "So." G "<tool_call>\n" G "<invoke name=\"f\">" G "<q>a b</q>" G "<n>6</n>" G
         "</invoke>\n" G "</tool_call>",
         "{\"content\": \"So.\", \"reasoning\": \"\", \"tool_calls\": [{\"name\": \"f\", "
         "\"arguments\": {\"q\": \"a b\", \"n\": 6}}]"},
        {"seed-xml", NULL,
         "<seed:think>why</seed:think>\nHi<seed:tool_call>\n<function=f>\n</function>\n"
         "</seed:tool_call><seed:eos>",
         "{\"content\": \"Hi\", \"reasoning\": \"why\", \"tool_calls\": [{\"name\": \"f\", "
         "\"arguments\": {}}]"},
        {"gemma4", NULL,
         "<|channel>thought\nwhy\n<channel|>Hi<|tool_call>call:f{a:1}<tool_call|><|tool_call>call:"
         "g{}"
         "<tool_call|>",
         "{\"content\": \"Hi\", \"reasoning\": \"why\", \"tool_calls\": [{\"name\": \"f\", "
         "\"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]"},
        {"harmony", NULL,
         "<|channel|>analysis<|message|>why<|end|><|start|>assistant<|channel|>commentary<|message|"
         ">"
         "Wait.<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json"
         "<|message|>{\"a\": 1}<|call|>",
         "{\"content\": \"Wait.\", \"reasoning\": \"why\", \"tool_calls\": [{\"name\": \"f\", "
         "\"arguments\": {\"a\": 1}}], \"problems\": []"},
        {"harmony", NULL,
         "<|channel|>analysis<|message|>why<|end|><|start|>assistant<|channel|>final<|message|>"
         "Done."
         "<|return|>",
         "{\"content\": \"Done.\", \"reasoning\": \"why\", \"tool_calls\": []"},
        {"harmony", NULL, "<|channel|>final<|message|>Done.<|end|>",
         "{\"content\": \"Done.\", \"reasoning\": \"\", \"tool_calls\": []"},
        {"command-r-list", NULL,
         "<|START_THINKING|>why<|END_THINKING|><|START_ACTION|>[\n{\"tool_call_id\": \"0\", "
         "\"tool_name\": \"f\", \"parameters\": {}}\n]<|END_ACTION|><|END_OF_TURN_TOKEN|>",
         "{\"content\": \"\", \"reasoning\": \"why\", \"tool_calls\": [{\"name\": \"f\", "
         "\"arguments\": {}}]"},
        {"command-r-list", NULL, "<|START_RESPONSE|>Hi<|END_RESPONSE|><|END_OF_TURN_TOKEN|>",
         "{\"content\": \"Hi\", \"reasoning\": \"\", \"tool_calls\": []"},
        {"apertus-list", NULL,
         "<|inner_prefix|>why<|tools_prefix|>[{\"f\": {\"a\": 1}}]<|tools_suffix|>",
         "{\"content\": \"\", \"reasoning\": \"why\", \"tool_calls\": [{\"name\": \"f\", "
         "\"arguments\": {\"a\": 1}}]"},
        {"mistral-args", NULL,
         "[THINK]why[/THINK]Hi[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g[ARGS]{\"a\":1}</s>",
         "{\"content\": \"Hi\", \"reasoning\": \"why\", \"tool_calls\": [{\"name\": \"f\", "
         "\"arguments\": {}}, {\"name\": \"g\", \"arguments\": {\"a\": 1}}]"},
        {"kimi", NULL,
         "<think>why</think>Hi<|tool_calls_section_begin|>\n<|tool_call_begin|>functions.f:0"
         "<|tool_call_argument_begin|>{}<|tool_call_end|>\n<|tool_call_begin|>functions.g:1"
         "<|tool_call_argument_begin|>{}<|tool_call_end|>\n<|tool_calls_section_end|><|im_end|>",
         "{\"content\": \"Hi\", \"reasoning\": \"why\", \"tool_calls\": [{\"name\": \"f\", "
         "\"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}], \"problems\": []"},
        {"functionary-v32", NULL, ">>>all\nHello>>>f\n{\"a\": 1}>>>g\n{}",
         "{\"content\": \"Hello\", \"reasoning\": \"\", \"tool_calls\": [{\"name\": \"f\", "
         "\"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}], \"problems\": []"},
        {"solar", NULL,
         "<|think|>why<|end|><|begin|>assistant<|content|>Hi<|end|><|begin|>assistant<|tool_calls|>"
         "<|tool_call:begin|>i1<|tool_call:name|>f<|tool_call:args|>{}<|tool_call:end|><|calls|>",
         "{\"content\": \"Hi\", \"reasoning\": \"why\", \"tool_calls\": [{\"name\": \"f\", "
         "\"arguments\": {}}], \"problems\": []"},
    };
    struct buf out = {0}, bytes = {0};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t n = strlen(cases[i].text);
        parse(cases[i].format, cases[i].tools, cases[i].text, n, n, TOOL_THINK_UNKNOWN, &out);
        for (size_t step = 1; step < 8; step++) {
            parse(cases[i].format, cases[i].tools, cases[i].text, n, step, TOOL_THINK_UNKNOWN,
                  &bytes);
            CHECK_EQ_STR(bytes.data, out.data);
        }
        if (strncmp(out.data, cases[i].want, strlen(cases[i].want)) != 0)
            CHECK_FAIL("%s: %s, expected %s", cases[i].format, out.data, cases[i].want);
    }
    buf_release(&out);
    buf_release(&bytes);
#undef G
}

static void check(const char *text, enum tool_think think, const char *want) {
    struct buf out = {0};
    parse("qwen-xml", NULL, text, strlen(text), 3, think, &out);
    if (strncmp(out.data, want, strlen(want)) != 0)
        CHECK_FAIL("\"%s\" gives %s, expected %s", text, out.data, want);
    buf_release(&out);
}

static void test_reasoning_and_content(void) {
#define CALL                                                                                       \
    "<tool_call>\n<function=f>\n<parameter=a>\nx </think> "                                        \
    "y\n</parameter>\n</function>\n</tool_call>"
#define CALL_JSON "\"tool_calls\": [{\"name\": \"f\", \"arguments\": {\"a\": \"x </think> y\"}}]"
    check("<think>\nwhy\n</think>\n\nText.\n\n" CALL, TOOL_THINK_UNKNOWN,
          "{\"content\": \"Text.\", \"reasoning\": \"why\", " CALL_JSON);
    check("why\n</think>\n\nText.", TOOL_THINK_OPEN,
          "{\"content\": \"Text.\", \"reasoning\": \"why\", \"tool_calls\": []");
    check("why\n</think>\n\n" CALL, TOOL_THINK_UNKNOWN,
          "{\"content\": \"\", \"reasoning\": \"why\", " CALL_JSON);
    check("Text. " CALL, TOOL_THINK_NONE,
          "{\"content\": \"Text.\", \"reasoning\": \"\", " CALL_JSON);
    check("why\n" CALL, TOOL_THINK_OPEN,
          "{\"content\": \"\", \"reasoning\": \"why\", " CALL_JSON); /* never closed */
    check("<think>a <tool_call> is\n<tool_call>\n</think>\nok", TOOL_THINK_UNKNOWN,
          "{\"content\": \"ok\", \"reasoning\": \"a <tool_call> is\\n<tool_call>\", "
          "\"tool_calls\": []");
    check("A plain answer", TOOL_THINK_NONE,
          "{\"content\": \"A plain answer\", \"reasoning\": \"\", \"tool_calls\": [], "
          "\"problems\": []}");
    check(CALL "\n" CALL, TOOL_THINK_NONE,
          "{\"content\": \"\", \"reasoning\": \"\", \"tool_calls\": [{\"name\": \"f\", "
          "\"arguments\": {\"a\": "
          "\"x </think> y\"}}, {\"name\": \"f\"");
    check("", TOOL_THINK_OPEN, "{\"content\": \"\"");
}

static void test_streamed_content(void) {
    static const char text[] = "Hello <b>you</b> <tool_cell> "
                               "there\n\n<tool_call>\n<function=f>\n</function>\n</tool_call>";
    struct toolparse *p;
    size_t len = 0;
    const char *s = NULL;
    CHECK_OK(toolparse_new(&p, toolfmt_find("qwen-xml"), NULL, 0, TOOL_THINK_NONE, &e));
    for (size_t i = 0; i < sizeof text - 1; i++) {
        toolparse_feed(p, text + i, 1);
        s = toolparse_content(p, &len);
        CHECK(len <= 34 && memcmp(s, text, len) == 0);
        if (i == 30) CHECK(len >= 20);
    }
    CHECK_EQ_I64(len, 34);
    toolparse_free(p);
}

/* Checks that no prefix of any format's text, even with the middle cut out, causes a crash or an
 * endless loop. */
static void test_hostile(void) {
    static const char *const texts[] = {
        "<think><tool_call><function=<parameter=</parameter></function></tool_call>",
        "<tool_call>{\"name\": {\"name\": [",
        "[TOOL_CALLS][[[[{\"a\"",
        "<|tool_call>call:f{a:{a:{a:[[<|\"|>",
        "<|tool_call_start|>[f(a=((((",
        " to=functions.<|message|>{",
        "{\"name\"",
        ">>>",
        "<tool_call>x<arg_key>a</arg_key><arg_value>",
        "\xff\xfe<tool_call>\x00x",
    };
    struct buf out = {0}, deep = {0};
    for (int f = 0; f < toolfmt_count(); f++)
        for (size_t i = 0; i < COUNT_OF(texts); i++)
            for (size_t n = 0; n <= strlen(texts[i]); n += 3)
                parse(toolfmt_name(toolfmt_at(f)), "[]", texts[i], n, 5, TOOL_THINK_UNKNOWN, &out);
    buf_str(&deep, "<tool_call>");
    for (int i = 0; i < 100000; i++) buf_chr(&deep, '[');
    parse("hermes-json", NULL, deep.data, deep.len, deep.len, TOOL_THINK_NONE, &out);
    buf_reset(&deep);
    buf_str(&deep, "<|tool_call>call:f{a:");
    for (int i = 0; i < 100000; i++) buf_chr(&deep, '[');
    parse("gemma4", NULL, deep.data, deep.len, deep.len, TOOL_THINK_NONE, &out);
    struct toolparse *p;
    CHECK_ERR(toolparse_new(&p, toolfmt_at(0), "{", 1, TOOL_THINK_NONE, &e), ERR_DATA,
              "not a JSON list");
    buf_release(&out);
    buf_release(&deep);
}

static void test_detect(void) {
    char *text;
    size_t len;
    CHECK_OK(
        io_read_file(&text, &len, "tests/golden/tiny-qwen35moe/chat_template.jinja", 1 << 20, &e));
    const struct toolfmt *f = toolfmt_detect(text, len);
    CHECK(f != NULL);
    if (f) CHECK_EQ_STR(toolfmt_name(f), "qwen-xml");
    CHECK(toolfmt_detect("plain", 5) == NULL);
    CHECK(toolfmt_find("nope") == NULL);
    free(text);
}

/* Tests templates that contain the words of two syntaxes. */
static void test_detect_first(void) {
    static const char *const t[][2] = {
        {"seed-xml", "<seed:tool_call>\n<function=f>\n<parameter=p>v</parameter>"},
        {"qwen-xml", "<tool_call>\n<function=f>\n<parameter=p>v</parameter>"},
        {"harmony", "{{ 'to=' }}{{ 'functions.' + tool_call.name + '<|channel|>commentary ' }}"}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        const struct toolfmt *f = toolfmt_detect(t[i][1], strlen(t[i][1]));
        CHECK_EQ_STR(f ? toolfmt_name(f) : "none", t[i][0]);
    }
}

/* Checks that the table of architectures names known syntaxes. */
static void test_of_models(void) {
    for (int i = 0; arch_at(i); i++) {
        char *list = arch_at(i)->tools ? xstrdup(arch_at(i)->tools) : NULL;
        for (char *save = NULL, *w = list ? strtok_r(list, " ", &save) : NULL; w;
             w = strtok_r(NULL, " ", &save))
            if (!toolfmt_find(w)) CHECK_FAIL("%s: no syntax %s", arch_at(i)->name, w);
        free(list);
    }
}

int main(void) {
    RUN(test_roundtrip);
    RUN(test_flagged);
    RUN(test_lines);
    RUN(test_other_formats);
    RUN(test_families);
    RUN(test_reasoning_and_content);
    RUN(test_streamed_content);
    RUN(test_hostile);
    RUN(test_detect);
    RUN(test_detect_first);
    RUN(test_of_models);
    return check_done();
}
