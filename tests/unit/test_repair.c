// SPDX-License-Identifier: MIT
/* tests/unit/test_repair.c - repair of templates written here in published idioms: unusual
 * conversations must be rendered as jinja2 renders their normal form with the original template
 * (tests/oracle/repair.py), and correct renderings must not change. */
#include "base/io.h"
#include "tests/check.h"
#include "template/chat_vars.h"
#include "template/lint.h"
#include "template/repair.h"

static struct err e;

static char *read_template(const char *name, size_t *len) {
    char path[300], *text = NULL;
    snprintf(path, sizeof path, "tests/golden/templates/repair/%s", name);
    CHECK_OK(io_read_file(&text, len, path, 1 << 20, &e));
    return text;
}

static bool has(const struct repair *r, const char *id) {
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->v[i].id, id) == 0) return true;
    return false;
}

/* Templates, the probes that still fail after the repair (none of these templates supports
 * thinking), and the repairs needed. */
static const struct {
    const char *name;
    const char *left;    /* probes, each followed by a space */
    const char *need[6]; /* ids */
} templates[] = {
    {"chatml.jinja",
     "reasoning_open_turn ",
     {"developer", "args-absent", "args-as-is", "think-test"}},
    {"tags.jinja", "reasoning_open_turn ", {"system-late", "args-text", "values", "content-null"}},
    {"headers.jinja", "reasoning_open_turn ", {"split-calls", "args-absent", "split-text"}},
    {"turns.jinja", "reasoning_open_turn ", {"ids", "text-first", "merge-users", "system-late"}},
    {"pasted.jinja", "reasoning_open_turn ", {"args-object", "developer", "think-test"}},
};

static void test_probes(void) {
    for (size_t i = 0; i < COUNT_OF(templates); i++) {
        struct repair r, again;
        struct jinja *t = NULL;
        struct jinja_err je;
        size_t len;
        char *src = read_template(templates[i].name, &len);
        CHECK_OK(repair_run(&r, src, len, templates[i].name, NULL, 0, &e));
        for (int k = 0; k < 6 && templates[i].need[k]; k++)
            if (!has(&r, templates[i].need[k]))
                CHECK_FAIL("%s: %s is not used", templates[i].name, templates[i].need[k]);
        CHECK_OK(jinja_compile(&t, r.text.data, r.text.len, templates[i].name, &je, &e));
        for (int k = 0; k < lint_probe_count() && t; k++) {
            struct lint_finding f;
            char outcome[160], name[80];
            CHECK_OK(lint_probe(t, k, outcome, &f, &e));
            snprintf(name, sizeof name, "%s ", f.probe);
            if (f.severity == LINT_ERROR && strcmp(outcome, "pass") != 0 &&
                !strstr(templates[i].left, name))
                CHECK_FAIL("%s: %s: %s", templates[i].name, f.probe, outcome);
        }
        CHECK_OK(repair_run(&again, r.text.data, r.text.len, "again", NULL, 0, &e));
        CHECK(again.ours && again.n == 0 && again.text.len == r.text.len &&
              memcmp(again.text.data, r.text.data, r.text.len) == 0);
        jinja_free(t);
        repair_free(&again);
        repair_free(&r);
        free(src);
    }
}

/* Renders one conversation; on failure, writes the error's text. */
static void render(const struct jinja *t, struct jval scenario, struct jval defaults,
                   struct buf *out) {
    struct chat_case k = chat_case_of(scenario, defaults);
    struct jinja_err je;
    struct err why;
    if (chat_case_render(t, &k, out, &je, &why)) {
        buf_reset(out);
        buf_fmt(out, "error: %s", why.msg);
    }
}

static void test_pairs(void) {
    static const char path[] = "tests/golden/templates/repair.json";
    char *text = NULL, *src = NULL, name[100] = "";
    size_t len, n_src;
    struct jdoc doc;
    struct jinja *t = NULL;
    int n = 0;
    CHECK_OK(io_read_file(&text, &len, path, 1 << 24, &e));
    CHECK_OK(jdoc_parse(&doc, text, len, path, &e));
    const struct jlist *pairs = chat_member(doc.root, "pairs").u.list;
    for (uint32_t i = 0; i < pairs->n; i++) {
        const struct jval p = pairs->v[i], which = chat_member(p, "template"),
                          want = chat_member(p, "want"), form = chat_member(p, "form");
        struct buf got = {0};
        if (!jv_is(which, name)) {
            struct repair r;
            struct jinja_err je;
            snprintf(name, sizeof name, "%.*s", (int)which.len, which.u.s);
            free(src);
            jinja_free(t);
            src = read_template(name, &n_src);
            CHECK_OK(repair_run(&r, src, n_src, name, NULL, 0, &e));
            CHECK_OK(jinja_compile(&t, r.text.data, r.text.len, name, &je, &e));
            repair_free(&r);
        }
        render(t, chat_member(p, "odd"), chat_member(doc.root, "defaults"), &got);
        if (got.len == want.len && memcmp(got.data, want.u.s, got.len) == 0)
            n++;
        else
            CHECK_FAIL("%s: %.*s: %.*s\n--- want\n%.*s", name, (int)form.len, form.u.s,
                       (int)got.len, got.data, (int)want.len, want.u.s);
        buf_release(&got);
    }
    CHECK(n >= 60);
    jinja_free(t);
    jdoc_release(&doc);
    free(src);
    free(text);
}

/* Checks that every expression knows its position in the source. */
static void test_places(void) {
    static const char *const texts[] = {"a",
                                        "a.b[1:]['k'](c, d=1)",
                                        "(a + b) * -c ** 2",
                                        "a | trim | join(x) | length",
                                        "(a) | trim",
                                        "a is string and b is not defined or not (c in d)",
                                        "x if (y) else [1, {'k': v}]",
                                        "a ~ 'b' 'c' ~ (d)",
                                        "1 < n <= (2)",
                                        "not x not in y",
                                        "a is divisibleby 3"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char src[100];
        struct jinja *t = NULL;
        struct jinja_err je;
        const size_t n = strlen(texts[i]);
        snprintf(src, sizeof src, "x {{  %s  }}", texts[i]);
        CHECK_OK(jinja_compile(&t, src, strlen(src), "t", &je, &e));
        const struct jnode *v = t && t->body && t->body->next ? t->body->next->a : NULL;
        CHECK(v != NULL);
        if (v && (v->end - v->start != n || memcmp(t->src + v->start, texts[i], n) != 0))
            CHECK_FAIL("%s: %.*s", texts[i], (int)(v->end - v->start), t->src + v->start);
        jinja_free(t);
    }
}

/* Tests templates that do not compile, unknown ids, and a repair limited to one id. */
static void test_choices(void) {
    static const char broken[] = "{% if %}";
    static const char *const bad[] = {"nope"}, *const one[] = {"developer"};
    struct repair r;
    size_t len;
    char *src = read_template("chatml.jinja", &len);
    CHECK_OK(repair_run(&r, broken, sizeof broken - 1, "broken", NULL, 0, &e));
    CHECK(r.n == 0 && r.text.len == sizeof broken - 1);
    repair_free(&r);
    CHECK_ERR(repair_run(&r, src, len, "chatml", bad, 1, &e), ERR_USAGE, "nope");
    repair_free(&r);
    CHECK_OK(repair_run(&r, src, len, "chatml", one, 1, &e));
    CHECK(r.n == 1 && has(&r, "developer"));
    repair_free(&r);
    free(src);
}

/* Checks that objects printed as a whole become JSON, and that the final newline is kept. */
static void test_objects(void) {
    static const struct {
        const char *call, *want;
    } rows[] = {{"{{ '<call>' ~ {'name': c.function.name, 'arguments': c.function.arguments} ~ "
                 "'</call>' }}",
                 "({'name': c.function.name, 'arguments': c.function.arguments} | tojson)"},
                {"<call>{{ c.function }}</call>",
                 "{{ (c.function if c.function is string else c.function | tojson) }}"},
                {"<call>{{ c['function'] }}</call>", "c['function'] | tojson)"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int newline = 0; newline < 2; newline++) {
            struct repair r;
            char src[600];
            snprintf(src, sizeof src,
                     "{%% if tools %%}<tools>{{ tools | tojson }}</tools>{%% endif %%}"
                     "{%% for m in messages %%}<{{ m.role }}>{{ m.content or '' }}"
                     "{%% for c in m.tool_calls or [] %%}%s{%% endfor %%}</{{ m.role }}>"
                     "{%% endfor %%}{%% if add_generation_prompt %%}<assistant>{%% endif %%}%s",
                     rows[i].call, newline ? "\n" : "");
            CHECK_OK(repair_run(&r, src, strlen(src), "objects", NULL, 0, &e));
            CHECK(has(&r, "values") && strstr(r.text.data, rows[i].want));
            CHECK((r.text.data[r.text.len - 1] == '\n') == newline);
            repair_free(&r);
        }
}

/* Renders a conversation that begins with a question, given the rest of its messages. */
static char *rendered(const char *src, size_t len, const char *rest) {
    struct jinja *t = NULL;
    struct jinja_err je;
    struct jdoc doc;
    struct buf json = {0}, out = {0};
    buf_fmt(&json, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},%s]}", rest);
    CHECK_OK(jinja_compile(&t, src, len, "t", &je, &e));
    CHECK_OK(jdoc_parse(&doc, json.data, json.len, "conversation", &e));
    render(t, doc.root, (struct jval){0}, &out);
    jdoc_release(&doc);
    jinja_free(t);
    buf_release(&json);
    return buf_take(&out);
}

/* Tests results without the name of their tool, which OpenAI's clients send: in templates that
 * print the name or require it, they get that of the call with their id or at their position, and
 * other results stay as they are. */
static void test_result_names(void) {
#define CALLS(id, other)                                                                           \
    "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"" id "\",\"type\":"        \
    "\"function\",\"function\":{\"name\":\"f\",\"arguments\":{}}},{\"id\":\"" other "\",\"type\":" \
    "\"function\",\"function\":{\"name\":\"g\",\"arguments\":{}}}]},"
#define ANSWER CALLS("call00001", "call00002")
#define SHOWN "<u>Hi<a><call>f {}</call><call>g {}</call><end>"
    static const struct {
        const char *rest, *want;
    } rows[] = {
        {ANSWER "{\"role\":\"tool\",\"tool_call_id\":\"call00002\",\"content\":\"R\"},"
                "{\"role\":\"tool\",\"tool_call_id\":\"call00001\",\"content\":\"S\"}",
         SHOWN "<r g>R</r><r f>S</r>"},
        {ANSWER "{\"role\":\"tool\",\"content\":\"R\"},{\"role\":\"tool\",\"content\":\"S\"}",
         SHOWN "<r f>R</r><r g>S</r>"},
        {ANSWER
         "{\"role\":\"tool\",\"name\":\"h\",\"tool_call_id\":\"call00001\",\"content\":\"R\"}",
         SHOWN "<r h>R</r>"},
        {CALLS("same", "same") "{\"role\":\"tool\",\"tool_call_id\":\"same\",\"content\":\"R\"},"
                               "{\"role\":\"tool\",\"tool_call_id\":\"same\",\"content\":\"S\"}",
         SHOWN "<r f>R</r><r g>S</r>"},
    };
#undef ANSWER
#undef CALLS
#undef SHOWN
    static const char *const needs[] = {"", "{% if not m.name %}{{ raise_exception('no name') }}"
                                            "{% endif %}"};
    for (size_t i = 0; i < COUNT_OF(needs); i++) {
        struct repair r;
        char src[800];
        snprintf(src, sizeof src,
                 "{%% for m in messages %%}{%% if m.role == 'user' %%}<u>{{ m.content }}"
                 "{%% elif m.role == 'tool' %%}%s<r {{ m.name }}>{{ m.content }}</r>"
                 "{%% elif m.role == 'assistant' %%}<a>{{ m.content }}"
                 "{%% for c in m.tool_calls or [] %%}<call>{{ c.function.name }} "
                 "{{ c.function.arguments | tojson }}</call>{%% endfor %%}<end>{%% endif %%}"
                 "{%% endfor %%}{%% if add_generation_prompt %%}<a>{%% endif %%}",
                 needs[i]);
        CHECK_OK(repair_run(&r, src, strlen(src), "names", NULL, 0, &e));
        CHECK(has(&r, "result-name"));
        for (size_t k = 0; k < COUNT_OF(rows); k++) {
            char *got = rendered(r.text.data, r.text.len, rows[k].rest);
            CHECK_EQ_STR(got, rows[k].want);
            free(got);
        }
        repair_free(&r);
    }
}

/* Checks that a call without text gets no answer of its own where the template prints empty text as
 * an answer and tests for null. */
static void test_null_calls(void) {
#define CALLS                                                                                      \
    "\"tool_calls\":[{\"id\":\"call00001\",\"type\":\"function\",\"function\":{\"name\":\"f\","    \
    "\"arguments\":{\"a\":\"b\"}}}]},{\"role\":\"tool\",\"tool_call_id\":\"call00001\","           \
    "\"content\":\"R\"}"
#define START                                                                                      \
    "{% for m in messages %}{% if m.role == 'user' %}<u>{{ m.content }}{% endif %}"                \
    "{% if m.role == 'system' %}<s>{{ m['content'] }}{% endif %}"
#define TEXT                                                                                       \
    "{% if m.role == 'assistant' and m['content'] is not none %}<a>{{ '' + m['content'] }}<end>"   \
    "{% endif %}"
    static const char with[] =
        START "{% if m.role == 'assistant' and m.tool_calls %}<a>{% for c in m.tool_calls %}"
              "<call>{{ c.function.name }} {{ c.function.arguments | tojson }}</call>{% endfor %}"
              "<end>{% endif %}" TEXT "{% if m.role == 'tool' %}<r>{{ m.content }}</r>{% endif %}"
              "{% endfor %}{% if add_generation_prompt %}<a>{% endif %}";
    static const char without[] =
        START TEXT "{% endfor %}{% if add_generation_prompt %}<a>{% endif %}";
    static const struct {
        const char *src;
        size_t len;
        const char *rest, *want;
    } rows[] = {
#define ROW(src, rest, want) {src, sizeof src - 1, rest, want}
        ROW(with, "{\"role\":\"assistant\",\"content\":null," CALLS,
            "<u>Hi<a><call>f {\"a\": \"b\"}</call><end><r>R</r>"),
        ROW(with, "{\"role\":\"assistant\",\"content\":\"\"," CALLS,
            "<u>Hi<a><call>f {\"a\": \"b\"}</call><end><r>R</r>"),
        ROW(with, "{\"role\":\"assistant\"," CALLS,
            "<u>Hi<a><call>f {\"a\": \"b\"}</call><end><r>R</r>"),
        ROW(with, "{\"role\":\"assistant\",\"content\":\"T\"," CALLS,
            "<u>Hi<a>T<end><a><call>f {\"a\": \"b\"}</call><end><r>R</r>"),
        ROW(without, "{\"role\":\"assistant\",\"content\":null," CALLS, "<u>Hi"),
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct repair r;
        CHECK_OK(repair_run(&r, rows[i].src, rows[i].len, "null", NULL, 0, &e));
        CHECK(!has(&r, "content-null"));
        char *got = rendered(r.text.data, r.text.len, rows[i].rest);
        CHECK_EQ_STR(got, rows[i].want);
        free(got);
        repair_free(&r);
    }
}

/* Checks that text next to a call goes before it, once, where a message of its own would close the
 * turn, which the next message of the model does not open again. */
static void test_one_turn(void) {
    static const char src[] =
        "{% for m in messages %}{% if m.role != 'tool' %}"
        "{% set again = loop.index0 > 0 and m.role == 'assistant' and "
        "messages[loop.index0 - 1].role == 'assistant' %}"
        "{% if not again %}<|turn>{{ m.role }}\n{% endif %}"
        "{% if m.tool_calls %}{% for c in m.tool_calls %}{{ '<|tool_call>' + c.function.name }} "
        "{{ c.function.arguments | tojson }}{% endfor %}"
        "{% for r in messages[loop.index0 + 1:] if r.role == 'tool' %}"
        "{{ '<r>' + r.content + '</r>' }}{% endfor %}{% endif %}{{ m.content or '' }}"
        "{% if m.content or not m.tool_calls %}<turn|>\n{% endif %}{% endif %}{% endfor %}"
        "{% if add_generation_prompt and messages[-1].role != 'tool' %}<|turn>model\n{% endif %}";
    struct repair r;
    CHECK_OK(repair_run(&r, src, sizeof src - 1, "turn", NULL, 0, &e));
    CHECK(has(&r, "text-ahead") && !has(&r, "split-text"));
    char *got =
        rendered(r.text.data, r.text.len, "{\"role\":\"assistant\",\"content\":\"T\"," CALLS);
    CHECK_EQ_STR(got, "<|turn>user\nHi<turn|>\n<|turn>assistant\n"
                      "T<|tool_call>f {\"a\": \"b\"}<r>R</r>");
    free(got);
    repair_free(&r);
}

int main(void) {
    RUN(test_result_names);
    RUN(test_null_calls);
    RUN(test_one_turn);
    RUN(test_objects);
    RUN(test_probes);
    RUN(test_pairs);
    RUN(test_choices);
    RUN(test_places);
    return check_done();
}
