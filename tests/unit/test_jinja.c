// SPDX-License-Identifier: MIT
/* tests/unit/test_jinja.c - the template engine: 403 vectors computed with jinja2 3.1.6 as
 * transformers 5.23 configures it (tests/golden/templates/jinja_units.json), limits, positions and
 * hostile templates. */
#include "base/ctx.h"
#include "base/io.h"
#include "tests/check.h"
#include "template/chat_batch.h"
#include "template/chat_vars.h"

static struct err e;

static void show(const char *title, struct jval v) {
    if (v.tag == JT_STR) fprintf(stderr, "  %s: %.*s\n", title, (int)v.len, v.u.s);
}

/* Returns whether texts are equal, or both renderings failed, with the same message if the template
 * raised it. */
static bool same(struct jval want, struct jval got) {
    if (want.tag == JT_STR) return got.tag == JT_STR && jv_eqs(want, got);
    if (got.tag != JT_DICT) return false;
    if (!jv_is(chat_member(want, "kind"), "raise")) return true;
    return jv_eqs(chat_member(want, "error"), chat_member(got, "error"));
}

static void test_units(void) {
    static const char path[] = "tests/golden/templates/jinja_units.json";
    struct jdoc want, got;
    struct buf out = {0};
    char *text;
    size_t len;
    int n = 0;
    CHECK_OK(io_read_file(&text, &len, path, 1 << 24, &e));
    CHECK_OK(jdoc_parse(&want, text, len, path, &e));
    CHECK_OK(chat_batch_eval(text, len, path, JINJA_HF, &out, &e));
    CHECK_OK(jdoc_parse(&got, out.data, out.len, "results", &e));
    struct jval units = chat_member(want.root, "units");
    for (uint32_t i = 0; i < units.u.list->n; i++) {
        struct jval u = units.u.list->v[i], expected = chat_member(u, "expected"),
                    id = chat_member(u, "id");
        struct jval *g = jdict_find(got.root.u.dict, id.u.s, id.len);
        CHECK(g != NULL);
        if (expected.tag == JT_MISSING) expected = u;
        if (g && same(expected, *g)) {
            n++;
            continue;
        }
        CHECK_FAIL("vector %.*s differs", (int)id.len, id.u.s);
        show("template", chat_member(u, "template"));
        show("expected", chat_member(u, "expected"));
        if (g) show("got", g->tag == JT_DICT ? chat_member(*g, "error") : *g);
    }
    CHECK_EQ_I64(n, 403);
    jdoc_release(&got);
    jdoc_release(&want);
    buf_release(&out);
    free(text);
}

/* Returns the result, or "kind: message", in static storage. */
static const char *run(const char *src, const char *vars, const struct jinja_limits *lim) {
    static char result[4096];
    struct jinja *t;
    struct jinja_err je;
    struct buf out = {0};
    if (jinja_compile(&t, src, strlen(src), "t", &je, &e)) {
        snprintf(result, sizeof result, "%s: %s", je.type, je.msg);
        return result;
    }
    if (jinja_render_text(t, vars, strlen(vars), 1772721000, lim, &out, &je, &e))
        snprintf(result, sizeof result, "%s: %s", je.type, je.msg);
    else
        snprintf(result, sizeof result, "%.*s", (int)out.len, out.data ? out.data : "");
    buf_release(&out);
    jinja_free(t);
    return result;
}

static void starts(const char *src, const char *want) {
    const char *got = run(src, "{}", NULL);
    if (strncmp(got, want, strlen(want)) != 0)
        CHECK_FAIL("%.60s gives \"%.200s\", expected \"%s\"", src, got, want);
}

static void test_values_from_json(void) {
    CHECK_EQ_STR(run("{{ a }} {{ b }} {{ c|tojson }} {{ d }}",
                     "{\"a\": 1.0, \"b\": 123456789012345678901234567890, \"c\": [1, 1.0], \"d\": "
                     "\"\\ud83d\\ude00\"}",
                     NULL),
                 "1.0 123456789012345678901234567890 [1, 1.0] \xf0\x9f\x98\x80");
    CHECK_EQ_STR(run("{{ a|length }}", "{\"a\": \"x\\u0000y\"}", NULL), "3");
    CHECK(strncmp(run("x", "{\"a\": }", NULL), "ValueError", 10) == 0);
    CHECK(strncmp(run("x", "[1]", NULL), "TypeError", 9) == 0);
}

/* Tests values computed manually by Python's rules for integers of any size. */
static void test_big_integers(void) {
    CHECK_EQ_STR(run("{{ 2 ** 100 }} {{ -(2 ** 64) // 3 }} {{ (2 ** 64) % -7 }} {{ 10 ** 20 - 10 "
                     "** 20 + 1 }}",
                     "{}", NULL),
                 "1267650600228229401496703205376 -6148914691236517206 -5 1");
    CHECK_EQ_STR(run("{{ 9223372036854775807 + 1 }} {{ -9223372036854775808 - 1 }} {{ "
                     "4611686018427387904 * -2 }}",
                     "{}", NULL),
                 "9223372036854775808 -9223372036854775809 -9223372036854775808");
    CHECK_EQ_STR(
        run("{{ 10 ** 20 == 1e20 }} {{ 2 ** 64 > 1e19 }} {{ [2 ** 70]|tojson }}", "{}", NULL),
        "True True [1180591620717411303424]");
}

static void test_positions(void) {
    struct jinja *t;
    struct jinja_err je;
    struct buf out = {0};
    const char *src = "line one\n{% if a %}\n  \xc3\xa9{{ b.c.d }}\n{% endif %}";
    CHECK_OK(jinja_compile(&t, src, strlen(src), "pos", &je, &e));
    CHECK_ERR(jinja_render_text(t, "{\"a\": 1, \"b\": {}}", 17, -1, NULL, &out, &je, &e), ERR_DATA,
              "pos:3:");
    CHECK_EQ_I64(je.line, 3);
    CHECK_EQ_I64(je.col, 11);
    CHECK(out.len == 0);
    jinja_free(t);
    CHECK_ERR(jinja_compile(&t, "a\n{{ 1 + }}", 11, "pos", &je, &e), ERR_DATA, "pos:2:8");
    CHECK(t == NULL);
    buf_release(&out);
}

static void test_limits(void) {
    struct jinja_limits steps = {.max_steps = 1000}, small = {.max_output = 100},
                        flat = {.max_depth = 5};
    CHECK(strncmp(run("{% for i in range(10000) %}x{% endfor %}", "{}", &steps), "limit", 5) == 0);
    CHECK(strncmp(run("{% for i in range(200) %}x{% endfor %}", "{}", &small), "limit", 5) == 0);
    CHECK(strncmp(run("{{ 'x' * 101 }}", "{}", &small), "limit", 5) == 0);
    CHECK(strncmp(run("{% macro f(n) %}{{ f(n - 1) if n }}{% endmacro %}{{ f(9) }}", "{}", &flat),
                  "RecursionError", 14) == 0);
    CHECK_EQ_STR(
        run("{% macro f(n) %}{{ n }}{{ f(n - 1) if n }}{% endmacro %}{{ f(3) }}", "{}", &flat),
        "3210");
    starts("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError");
    starts("{{ range(100001) }}", "OverflowError");
    starts("{{ 'x' * 10 ** 12 }}", "limit");
    starts("{{ [1] * 10 ** 9 }}", "limit");
    starts("{{ 10 ** 99999 }}", "limit");
    starts("{{ '%999999999d' % 1 }}", "limit");
    starts("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
           "limit");
    starts("{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% "
           "endfor %}",
           "limit");
    starts("{% set ns = namespace(l=[]) %}{% for i in range(9000) %}{% set ns.l = [ns.l] %}{% "
           "endfor %}{{ ns.l }}",
           "RecursionError");
}

/* Checks that cancelling a job stops its rendering. A failed allocation does not, since it must not
 * look like a failing template. */
static void test_stopped(void) {
    static const char src[] =
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
    struct jinja_limits most = {.max_steps = 1000000};
    struct ctx_cost cost = {.most = most.max_steps}, *before = ctx_cost_enter(&cost);
    progress_interrupt();
    CHECK_EQ_STR(run(src, "{}", &most), "interrupted: interrupted");
    CHECK_EQ_I64(e.code, ERR_INTR);
    CHECK(cost.spent < 100000);
    progress_resume();
    atomic_store(&ctx_current()->starved, true);
    cost.spent = 0;
    CHECK(progress_interrupted() && !progress_cancelled());
    CHECK(strncmp(run(src, "{}", &most), "limit", 5) == 0);
    progress_resume();
    CHECK(!progress_interrupted());
    ctx_cost_enter(before);
}

/* Checks that work within one call is counted. Otherwise each of these templates would take
 * minutes; they reach the step limit, or need few steps because the work is linear. */
static void test_cost(void) {
    static const struct {
        const char *src, *want;
    } rows[] = {
        {"{{ ('a' * 400000).rfind('a' * 200000 ~ 'b') }}", "limit"},
        {"{{ ('a' * 400000).rsplit('a' * 200000 ~ 'b') }}", "limit"},
        {"{{ ('a' * 400000).rpartition('a' * 200000 ~ 'b') }}", "limit"},
        {"{{ ('a' * 400000).strip('b' * 400000 ~ 'a') }}", "limit"},
        {"{% set b = 'x' * 90000 %}{{ ('x' * 90001).endswith((b ~ 'y',) * 90000) }}", "limit"},
        {"{% set d = {'x' * 90000: 1} %}{% set k = 'x' * 90000 %}{% for i in range(9000) %}{% if "
         "d[k] %}{% endif %}{% endfor %}",
         "limit"},
        {"{{ range(40000) | map('string') | map('replace', '', '7777777777') | map('int') | unique "
         "| list | length }}",
         "limit"},
        {"{% set n = namespace(t=(1,)) %}{% for i in range(60) %}{% set n.t = (n.t, n.t) %}{% "
         "endfor %}{{ {n.t: 1} }}",
         "limit"},
        {"{% for i in range(90000) %}{% set x = i ~ 'abcdefghi' %}{% set y = x ~ x ~ x %}{% endfor "
         "%}{% for i in range(900000) %}{% endfor %}",
         "limit"},
        {"{% set x = 10 ** 8000 %}{% for i in range(9000) %}{% if x * x %}{% endif %}{% endfor %}",
         "limit"},
        {"{% set x = 10 ** 16000 %}{% set y = 10 ** 8000 %}{% for i in range(900) %}{% if x // y "
         "%}{% endif %}{% endfor %}",
         "limit"},
        {"{% set s = 'x' * 90000 %}{% for i in range(90000) %}{% if s[i] %}{% endif %}{% endfor %}",
         "limit"},
        {"{{ ('\xce\xa3' * 200000).lower() | length }}", "200000"},
        {"{{ ('\xce\xa3.' * 200000).lower() | length }}", "400000"},
        {"{{ ('<' * 400000) | striptags | length }}", "400000"},
        {"{{ ('<!--' * 100000) | striptags | length }}", "400000"},
        {"{{ range(0, 30000 * 4294967296, 4294967296) | unique | list | length }}", "30000"},
    };
    struct jinja_limits most = {.max_steps = 1000000};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *got = run(rows[i].src, "{}", &most);
        if (strncmp(got, rows[i].want, strlen(rows[i].want)) != 0)
            CHECK_FAIL("%s gives \"%.80s\", expected \"%s\"", rows[i].src, got, rows[i].want);
    }
    starts("{% set n = namespace(t=(1,)) %}{% for i in range(90000) %}{% set n.t = (n.t,) %}{% "
           "endfor %}{{ {n.t: 1} }}",
           "RecursionError");
    starts("{% set n = namespace(t=[]) %}{% for i in range(90000) %}{% set n.t = [n.t] %}{% endfor "
           "%}{{ n.t | pprint }}",
           "RecursionError");
    CHECK_EQ_STR(run("{{ '\xce\x91\xce\xa3 \xce\xa3 \xce\x91.\xce\xa3. \xce\x91\xce\xa3\xce\x91 "
                     "\xca\xb0\xce\xa3'.lower() }}",
                     "{}", NULL),
                 "\xce\xb1\xcf\x82 \xcf\x83 \xce\xb1.\xcf\x82. \xce\xb1\xcf\x83\xce\xb1 "
                 "\xca\xb0\xcf\x83"); /* as Python */
}

/* Checks that deep nesting in the source is refused instead of crashing. */
static void test_nesting(void) {
    static const struct {
        const char *head, *unit, *mid, *close, *tail;
        int n;
        bool may_pass;
    } cases[] = {
        {"{{ ", "(", "1", ")", " }}", 20000, false},
        {"{{ ", "[", "1", "]", " }}", 20000, false},
        {"{{ ", "-", "1", "", " }}", 20000, false},
        {"{{ ", "not ", "1", "", " }}", 20000, false},
        {"{{ 1", "+1", "", "", " }}", 20000, false},
        {"{{ x", "|abs", "", "", " }}", 20000, false},
        {"{{ x", ".y", "", "", " }}", 20000, false},
        {"{{ ", "1 if 1 else ", "1", "", " }}", 20000, false},
        {"", "{% if 1 %}", "x", "{% endif %}", "", 20000, false},
        {"", "{% for a in b %}", "x", "{% endfor %}", "", 20000, false},
        {"{% if 1 %}", "{% elif 1 %}", "x", "", "{% endif %}", 20000, false},
        {"{{ 1", "~1", "", "", " }}", 20000, true},
        {"{{ 'a'", "'b'", "", "", " }}", 2000, true},
        {"{{ {", "1:1,", "", "", "} }}", 20000, true},
        {"{{ 1", "==1", "", "", " }}", 20000, true},
        {"", "{{ 1 }}", "", "", "", 20000, true},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct buf src = {0}, out = {0};
        struct jinja *t;
        struct jinja_err je;
        buf_str(&src, cases[i].head);
        for (int k = 0; k < cases[i].n; k++) buf_str(&src, cases[i].unit);
        buf_str(&src, cases[i].mid);
        for (int k = 0; k < cases[i].n; k++) buf_str(&src, cases[i].close);
        buf_str(&src, cases[i].tail);
        int rc = jinja_compile(&t, src.data, src.len, "deep", &je, &e);
        if ((rc == 0) != cases[i].may_pass)
            CHECK_FAIL("nesting of \"%s\": %s", cases[i].unit, rc ? je.msg : "accepted");
        if (!rc) rc = jinja_render_text(t, "{}", 2, -1, NULL, &out, &je, &e);
        jinja_free(t);
        buf_release(&src);
        buf_release(&out);
    }
}

/* Checks that every prefix and every one-byte deletion of a template that uses most of the language
 * either compiles or is refused, then renders or fails, without crashes. */
static void test_mutilated(void) {
    static const char src[] =
        "{#- c -#}{%- set ns = namespace(a=[1, 2.5, 'x\\u00e9'], b={'k': none}) -%}\n"
        "{% macro m(x, y=x ~ 1) %}{{ x|default('d', true)|upper }}{{ y[::-1] }}{% endmacro %}"
        "{% for k, v in ns.b.items() if v is none recursive %}{{ loop.index }}{{ k|tojson }}{{ "
        "m(k, y='q') }}"
        "{% else %}{{ raise_exception('r') }}{% endfor %}{% call m(1) %}{{ 2 ** 3 // -2 }}{% "
        "endcall %}"
        "{% set s | replace('a', 'b') %}a{{ 'b' if a is defined and not a else 'c' }}{% endset %}"
        "{% filter indent(2) %}{{ '%s-%05.1f' % (s, 1.25) }}{% endfilter %}{{ '{:>4}'.format(7) }}"
        "{% if 1 < 2 <= 3 != 4 %}{{ [3, 1]|sort|map('string')|join(',') }}{% elif x %}{% endif %}"
        "{% raw %}{{ }}{% endraw %}{% with q = 1 %}{{ q }}{% endwith %}{% generation %}g{% "
        "endgeneration %}";
    for (int mode = 0; mode < 2; mode++) {
        for (size_t i = 0; i < sizeof src; i++) {
            char text[sizeof src];
            size_t n = mode ? sizeof src - 2 : i;
            struct jinja *t;
            struct jinja_err je;
            struct buf out = {0};
            memcpy(text, src, sizeof src);
            if (mode && i + 1 < sizeof src) memmove(text + i, text + i + 1, sizeof src - i - 1);
            if (jinja_compile(&t, text, n, "cut", &je, &e)) {
                CHECK(je.kind == JF_SYNTAX && je.line >= 1 && je.msg[0]);
                continue;
            }
            if (jinja_render_text(t, "{}", 2, 0, NULL, &out, &je, &e))
                CHECK(je.kind != JF_NONE && je.msg[0]);
            buf_release(&out);
            jinja_free(t);
        }
    }
}

static void test_lenient(void) {
    static const char src[] =
        "{% set l = [1] %}{{ l.append(2) or l }}{{ l.pop() }}{{ ('{\"a\": [1.0]}'|from_json).a }}"
        "{% set d = {} %}{% set d.x = 1 %}{{ d }}";
    struct jinja *t;
    struct jinja_err je;
    struct buf out = {0};
    CHECK(jinja_compile(&t, src, strlen(src), "t", &je, &e) != 0);
    CHECK_OK(jinja_compile_mode(&t, src, strlen(src), "t", JINJA_LENIENT, &je, &e));
    CHECK_OK(jinja_render_text(t, "{}", 2, -1, NULL, &out, &je, &e));
    CHECK_EQ_STR(out.data, "[1, 2]2[1.0]{'x': 1}");
    jinja_free(t);
    buf_release(&out);
}

int main(void) {
    RUN(test_units);
    RUN(test_values_from_json);
    RUN(test_big_integers);
    RUN(test_positions);
    RUN(test_limits);
    RUN(test_stopped);
    RUN(test_cost);
    RUN(test_nesting);
    RUN(test_mutilated);
    RUN(test_lenient);
    return check_done();
}
