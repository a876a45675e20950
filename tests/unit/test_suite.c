// SPDX-License-Identifier: MIT
/* tests/unit/test_suite.c - suites of cases, and verdicts on answers. The answers were written
 * manually by the rules in docs/formats/suite.md; no model runs here. */
#include "calib/defaults.h"
#include "tests/check.h"
#include "tests/unit/tmpdir.h"
#include "runtime/measure/loop.h"
#include "runtime/measure/suite.h"

static struct err e;

#define TOOLS                                                                                      \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"order\", \"parameters\": "    \
    "{\"type\": \"object\", \"properties\": {\"item\": {\"type\": \"string\"}, \"n\": {\"type\": " \
    "\"integer\", \"minimum\": 1}}, \"required\": [\"item\"], \"additionalProperties\": "          \
    "false}}}, "                                                                                   \
    "{\"name\": \"stop\"}]"
#define CALL(name, args)                                                                           \
    "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " args "}\n</tool_call>"

static int judge(const char *line, const char *prompt, const char *text, struct verdict *v) {
    struct suite s;
    struct answer a;
    memset(v, 0, sizeof *v);
    if (suite_parse(&s, line, strlen(line), "s.jsonl", &e)) return (int)e.code;
    const struct answer_text t = {.prompt = prompt, .text = text, .len = strlen(text)};
    int rc = answer_read(&a, toolfmt_find("hermes-json"), &s.c[0], &t, &e);
    if (!rc) rc = answer_judge(&s.c[0], &a, v, &e);
    answer_release(&a);
    suite_close(&s);
    return rc;
}

static void test_checks(void) {
    static const struct {
        const char *checks, *answer;
        bool pass;
    } row[] = {
        {"\"exact\": \"Oslo\"", "Oslo", true},
        {"\"exact\": \"Oslo\"", "  Oslo\n", true},
        {"\"exact\": \"Oslo\"", "Oslo.", false},
        {"\"exact\": \"Oslo\"", "<think>\nOslo? Rome?\n</think>\n\nOslo", true},
        {"\"contains\": \"Oslo\"", "It is Oslo.", true},
        {"\"contains\": \"Oslo\"", "<think>Oslo</think>\nRome", false},
        {"\"contains\": [\"Oslo\", \"Norway\"]", "Oslo, Norway", true},
        {"\"contains\": [\"Oslo\", \"Norway\"]", "Oslo", false},
        {"\"fields\": [\"b\", \"a\"]", "```json\n{\"b\": 1, \"a\": {\"c\": 2}}\n```", true},
        {"\"fields\": [\"b\", \"a\"]", "{\"a\": 1, \"b\": 2}", false},
        {"\"fields\": [\"b\"]", "{\"b\": 1, \"a\": 2}", false},
        {"\"fields\": [\"b\", \"a\"]", "{\"b\": 1}", false},
        {"\"fields\": [\"b\"]", "[\"b\"]", false},
        {"\"reasoning\": false", "Oslo", true},
        {"\"reasoning\": false", "<think>\nhm\n</think>\n\nOslo", false},
        {"\"reasoning\": true", "<think>\nhm\n</think>\n\nOslo", true},
        {"\"excludes\": \"sorry\"", "Oslo", true},
        {"\"excludes\": [\"sorry\", \"Oslo\"]", "Oslo", false},
        {"\"regex\": \"^\\\\d{3}$\"", "123", true},
        {"\"regex\": \"^\\\\d{3}$\"", "1234", false},
        {"\"regex\": \"(?i)OSLO\"", "in oslo now", true},
        {"\"json_schema\": {\"required\": [\"a\"]}", "{\"a\": 1}", true},
        {"\"json_schema\": {\"required\": [\"a\"]}", "```json\n{\"a\": 1}\n```", true},
        {"\"json_schema\": {\"required\": [\"a\"]}", "{\"b\": 1}", false},
        {"\"json_schema\": {\"required\": [\"a\"]}", "Here: {\"a\": 1}", false},
        {"\"json_schema\": {\"type\": \"array\"}", "[1, 2", false},
        {"\"contains\": \"a\", \"regex\": \"b\"", "ab", true},
        {"\"contains\": \"a\", \"regex\": \"b\"", "a", false},
        {"\"contains\": \"a\"", "\xff\xfe", false},
        {"\"contains\": \"a\xef\xbf\xbd\"", "a\xe2\x82", true},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct verdict v;
        char line[512];
        snprintf(line, sizeof line, "{\"prompt\": \"x\", \"checks\": {%s}}", row[i].checks);
        CHECK_OK(judge(line, "x", row[i].answer, &v));
        if (v.pass != row[i].pass || v.pass != !v.why.len)
            CHECK_FAIL("%s of '%s': %d (%s)", row[i].checks, row[i].answer, v.pass,
                       v.why.len ? v.why.data : "");
        verdict_release(&v);
    }
}

static void test_calls(void) {
    static const struct {
        const char *expect, *answer, *grades; /* parsed valid named equal pass: + or - */
    } row[] = {
#define ONE "{\"name\": \"order\", \"arguments\": {\"item\": \"lamp\", \"n\": 2}}"
        {ONE, CALL("order", "{\"item\": \"lamp\", \"n\": 2}"), "+++++"},
        {ONE, CALL("order", "{\"n\": 2.0, \"item\": \"lamp\"}"), "+++++"},
        {ONE, CALL("order", "{\"item\": \"lamp\", \"n\": \"2\"}"), "+-+--"},
        {ONE, CALL("order", "{\"item\": \"lamp\", \"n\": 3}"), "+++--"},
        {ONE, CALL("order", "{\"item\": \"lamp\", \"n\": 0}"), "+-+--"},
        {ONE, CALL("order", "{\"item\": \"lamp\"}"), "+++--"},
        {ONE, CALL("order", "{\"item\": \"lamp\", \"n\": 2, \"x\": 1}"), "+-+--"},
        {ONE, CALL("order", "{\"n\": 2}"), "+-+--"},
        {ONE, CALL("stop", "{}"), "++---"},
        {ONE, CALL("buy", "{\"item\": \"lamp\", \"n\": 2}"), "+----"},
        {ONE, "I ordered it.", "-----"},
        {ONE, CALL("order", "{\"item\": \"lamp\", \"n\": 2"), "+++++"},
        {ONE, CALL("order", "{\"item\": \"lamp\", \"n\": 2}") "\n" CALL("stop", "{}"), "++---"},
        {"[" ONE ", {\"name\": \"stop\", \"arguments\": {}}]",
         CALL("order", "{\"item\": \"lamp\", \"n\": 2}") "\n" CALL("stop", "{}"), "+++++"},
        {"[" ONE ", {\"name\": \"stop\", \"arguments\": {}}]",
         CALL("stop", "{}") "\n" CALL("order", "{\"item\": \"lamp\", \"n\": 2}"), "++---"},
        {"{\"name\": \"order\", \"schema\": {\"properties\": {\"item\": {\"enum\": [\"lamp\", "
         "\"a lamp\"]}}}}",
         CALL("order", "{\"item\": \"a lamp\"}"), "+++++"},
        {"{\"name\": \"order\", \"schema\": {\"properties\": {\"item\": {\"enum\": [\"lamp\", "
         "\"a lamp\"]}}}}",
         CALL("order", "{\"item\": \"lamps\"}"), "+++--"},
        {"null", "Four.", "+++++"},
        {"[]", "Four.", "+++++"},
        {"null", CALL("stop", "{}"), "-----"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct verdict v;
        char line[2048], got[6];
        snprintf(line, sizeof line, "{\"messages\": [], " TOOLS ", \"expect\": %s}", row[i].expect);
        CHECK_OK(judge(line, "x", row[i].answer, &v));
        const bool have[5] = {v.parsed, v.valid, v.named, v.equal, v.pass};
        for (int k = 0; k < 5; k++) got[k] = have[k] ? '+' : '-';
        got[5] = 0;
        if (strcmp(got, row[i].grades) != 0 || v.pass != !v.why.len)
            CHECK_FAIL("%s, %s: %s, expected %s (%s)", row[i].expect, row[i].answer, got,
                       row[i].grades, v.why.len ? v.why.data : "");
        verdict_release(&v);
    }
}

/* Checks that if the prompt opened the reasoning, the text before the closing tag is not
 * content. */
static void test_reasoning(void) {
    struct verdict v;
    const char *line = "{\"prompt\": \"x\", \"checks\": {\"exact\": \"b\"}}";
    CHECK_OK(judge(line, "<assistant>\n<think>\n", "a\n</think>\n\nb", &v));
    CHECK(v.pass);
    verdict_release(&v);
    CHECK_OK(judge(line, "<think>\n\n</think>\n\n", "b", &v));
    CHECK(v.pass);
    verdict_release(&v);
    CHECK_OK(judge(line, "<think>\n", "b", &v)); /* still thinking */
    CHECK(!v.pass);
    verdict_release(&v);
}

#define INNER "{\"properties\": {\"a\": {\"pattern\": \"(\"}}}"

static void test_bad_suites(void) {
    static const char *const bad[][2] = {
        {"", "contains no case"},
        {"\n \n", "contains no case"},
        {"[]", "\"prompt\""},
        {"{\"prompt\": \"x\"", "line 1"},
        {"{\"prompt\": \"x\"}", "neither \"checks\" nor"},
        {"{\"prompt\": \"x\", \"hone\": {}}", "use --from-answers"},
        {"{\"prompt\": \"x\", \"checks\": {}}", "neither \"checks\" nor"},
        {"{\"prompt\": \"x\", \"text\": \"x\", \"checks\": {\"exact\": \"\"}}", "\"prompt\""},
        {"{\"checks\": {\"exact\": \"\"}}", "\"prompt\""},
        {"{\"prompt\": \"x\", \"checks\": {\"exacts\": \"a\"}}", "exact, contains, excludes"},
        {"{\"prompt\": \"x\", \"checks\": {\"exact\": 1}}", "must be a string"},
        {"{\"prompt\": \"x\", \"checks\": {\"contains\": []}}", "a list of strings"},
        {"{\"prompt\": \"x\", \"checks\": {\"contains\": \"\"}}", "must not be empty"},
        {"{\"prompt\": \"x\", \"checks\": {\"regex\": \"(\"}}", "line 1: the regular expression"},
        {"{\"prompt\": \"x\", \"checks\": {\"json_schema\": 3}}", "must be a schema"},
        {"{\"prompt\": \"x\", \"checks\": {\"json_schema\": {\"type\": \"int\"}}}", "no JSON type"},
        {"{\"prompt\": \"x\", \"max_tokens\": 0, \"checks\": {\"exact\": \"\"}}", "max_tokens"},
        {"{\"prompt\": \"x\", \"expect\": {\"name\": \"f\"}}", "\"arguments\" or \"schema\""},
        {"{\"prompt\": \"x\", \"expect\": {\"name\": \"f\", \"arguments\": {}}}", "no tool 'f'"},
        {"{\"prompt\": \"x\", " TOOLS ", \"expect\": {\"name\": \"order\", \"arguments\": {}}}",
         "'item' is missing"},
        {"{\"prompt\": \"x\", " TOOLS ", \"expect\": 3}", "\"expect\" must be"},
        {"{\"prompt\": \"x\", " TOOLS ", \"expect\": null, \"checks\": {\"tool_call\": null}}",
         "are the same"},
        {"{\"prompt\": \"x\", " TOOLS ", \"expect\": {\"name\": \"order\", \"schema\": " INNER "}}",
         "line 1: \"expect\": the regular expression '('"},
        {"{\"prompt\": \"x\", \"checks\": {\"json_schema\": " INNER "}}",
         "line 1: \"json_schema\": the regular expression '('"},
        {"{\"prompt\": \"x\", \"tools\": [{\"name\": \"f\", \"parameters\": " INNER
         "}], \"expect\": null}",
         "line 1: tool 'f': the regular expression '('"},
        {"{\"prompt\": \"x\", \"tools\": [{\"name\": \"f\", \"parameters\": 3}], \"expect\": null}",
         "line 1: tool 'f': the schema is neither object nor bool"},
        {"{\"prompt\": \"x\", \"checks\": \"exact\", \"expect\": null}",
         "\"checks\" must be an object"},
        {"{\"prompt\": \"x\", \"tools\": {\"name\": \"f\"}, \"expect\": null}",
         "line 1: \"tools\" must be a list"},
        {"{\"prompt\": \"x\", \"stop\": 3, \"checks\": {\"exact\": \"\"}}", "\"stop\" must be"},
        {"{\"prompt\": \"x\", \"stop\": [\"a\", \"\"], \"checks\": {\"exact\": \"\"}}",
         "\"stop\" must be"},
    };
    struct suite s;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_ERR(suite_parse(&s, bad[i][0], strlen(bad[i][0]), "s.jsonl", &e), ERR_DATA,
                  bad[i][1]);
    static const char none[] =
        "{\"prompt\": \"x\", \"tools\": null, \"checks\": null, \"expect\": null}";
    CHECK_OK(suite_parse(&s, none, strlen(none), "s.jsonl", &e));
    suite_close(&s);
}

static void test_stops(void) {
    static const char text[] =
        "{\"prompt\": \"x\", \"stop\": \"END\", \"checks\": {\"exact\": \"\"}}\n"
        "{\"prompt\": \"x\", \"stop\": [\"a\", \"\\n\"], \"checks\": {\"exact\": \"\"}}";
    struct suite s;
    CHECK_OK(suite_parse(&s, text, strlen(text), "s.jsonl", &e));
    CHECK_EQ_I64(s.c[0].n_stop, 1);
    CHECK_EQ_STR(s.c[0].stop[0], "END");
    CHECK_EQ_I64(s.c[1].n_stop, 2);
    CHECK_EQ_STR(s.c[1].stop[1], "\n");
    suite_close(&s);
}

/* Checks that an answer is read as hone serve reads it: only content has stop texts, the beginning
 * of a call that was cut is not content, and without tools a call is content. */
static void test_read_as_served(void) {
    static const char call[] = CALL("order", "{\"item\": \"END\"}");
    static const struct {
        const char *more, *text, *content;
        bool cut, stopped;
        int n_calls;
    } row[] = {
        {TOOLS, "<think>END</think>one END two", "one ", false, true, 0},
        {TOOLS, "<think>END</think>one EN", "one EN", false, false, 0},
        {TOOLS, call, "", false, false, 1},
        {TOOLS, CALL("stop", "{}") "\n\nOK END", "OK ", false, false, 1},
        {TOOLS, "one <tool_call>\n{\"name\": \"order\", \"argu", "one", true, false, 0},
        {TOOLS, "one two", "one two", true, false, 0},
        {"\"tools\": []", "one " CALL("stop", "{}"), "one " CALL("stop", "{}"), false, false, 0},
        {"\"tools\": []", call, "<tool_call>\n{\"name\": \"order\", \"arguments\": {\"item\": \"",
         false, true, 0},
    };
    const struct toolfmt *f = toolfmt_find("hermes-json");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char line[2048];
        struct suite s;
        struct answer a;
        const struct answer_text t = {
            .prompt = "x", .text = row[i].text, .len = strlen(row[i].text), .cut = row[i].cut};
        snprintf(line, sizeof line,
                 "{\"messages\": [], %s, \"stop\": \"END\", \"checks\": {\"exact\": \"\"}}",
                 row[i].more);
        CHECK_OK(suite_parse(&s, line, strlen(line), "s.jsonl", &e));
        CHECK_OK(answer_read(&a, f, &s.c[0], &t, &e));
        CHECK_EQ_STR(a.content, row[i].content);
        CHECK_EQ_I64(json_len(json_get(a.json, "tool_calls")), row[i].n_calls);
        if (answer_stopped(f, &s.c[0], &t) != row[i].stopped) CHECK_FAIL("row %zu: stopped", i);
        answer_release(&a);
        suite_close(&s);
    }
}

/* Checks when two last answers of loops are the same: by all calls or, without calls, the text. */
static void test_same_loops(void) {
    static const struct {
        const char *calls[2], *content[2];
        bool same;
    } row[] = {
        {{"f{}", "f{}"}, {"Done.", "It is done."}, true},
        {{"f{}", "f{} f{}"}, {"Done.", "Done."}, false},
        {{"f{}", ""}, {"Done.", "Done."}, false},
        {{"", ""}, {"Done.", "Done."}, true},
        {{"", ""}, {"Done.", "Which one?"}, false},
    };
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        struct answer a[2];
        for (int k = 0; k < 2; k++) {
            a[k] = (struct answer){.content = row[i].content[k], .loop = true};
            buf_str(&a[k].trace, row[i].calls[k]);
        }
        if (answer_same(&a[0], &a[1]) != row[i].same) CHECK_FAIL("row %zu", i);
        for (int k = 0; k < 2; k++) buf_release(&a[k].trace);
    }
}

/* Calls f of a loop with JSON arguments and compares the result. */
static void call(struct loop *l, const char *args, const char *want, bool want_valid) {
    struct buf text = {0}, result = {0};
    struct json *j;
    bool valid;
    buf_fmt(&text, "{\"name\": \"f\", \"arguments\": %s}", args);
    CHECK_OK(json_parse(&j, text.data, text.len, "call", &e));
    CHECK_OK(loop_call(l, j, &result, &valid, &e));
    CHECK_EQ_STR(result.data, want);
    CHECK(valid == want_valid);
    json_free(j);
    buf_release(&text);
    buf_release(&result);
}

#define TOOL_F                                                                                     \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "        \
    "{\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\"}}, \"required\": "      \
    "[\"n\"]}}}]"
#define CLOSED_F(more)                                                                             \
    "{\"messages\": [], \"tools\": [{\"name\": \"f\", \"parameters\": {\"properties\": {\"n\": "   \
    "{}}, "                                                                                        \
    "\"additionalProperties\": false" more "}}], \"loop\": {\"goal\": {\"a\": 1}, \"results\": "   \
    "[{\"name\": \"f\", \"result\": 1, \"arguments\": {\"m\": 1}, \"set\": {\"a\": 1}}]}}"
#define LOOP_HEAD                                                                                  \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], " TOOL_F ", \"loop\": "

/* The world of a loop: rules in order, arguments, state, counts, goal. Expected: read off the rules
 * as docs/formats/suite.md defines them. */
static void test_loop_world(void) {
    static const char text[] = LOOP_HEAD
        "{\"state\": {\"door\": \"shut\"}, \"then\": [\"and?\"], \"goal\": {\"door\": \"open\", "
        "\"alarm\": null},"
        " \"results\": [{\"name\": \"f\", \"times\": 1, \"result\": \"busy\"},"
        " {\"name\": \"f\", \"arguments\": {\"n\": 2}, \"when\": {\"key\": true}, \"result\": "
        "{\"ok\": 1.0}, \"set\": {\"door\": \"open\"}},"
        " {\"name\": \"f\", \"arguments\": {\"n\": 1}, \"result\": [], \"set\": {\"key\": true}},"
        " {\"name\": \"f\", \"schema\": {\"properties\": {\"n\": {\"minimum\": 8}}}, \"result\": "
        "0, "
        "\"set\": {\"alarm\": true}}]}}";
    struct suite s;
    struct buf why = {0};
    CHECK_OK(suite_parse(&s, text, strlen(text), "loops", &e));
    CHECK(s.c[0].loop && suite_calls(&s));
    CHECK_EQ_I64(loop_steps(&s.c[0]), LOOP_STEPS);
    struct loop *l = loop_new(&s.c[0]);
    CHECK(!loop_reached(l, &why));
    CHECK_EQ_STR(why.data, "'door' is not \"open\"");
    call(l, "{\"n\": 2}", "busy", true);
    call(l, "{\"n\": 2}", "{\"error\": \"nothing found for these arguments\"}", true);
    call(l, "{\"n\": 1}", "[]", true);
    call(l, "{\"n\": 2}", "{\"ok\": 1.0}", true);
    CHECK(loop_reached(l, &why));
    call(l, "{}", "{\"error\": \"'n' is missing\"}", false);
    call(l, "{\"n\": 7}", "{\"error\": \"nothing found for these arguments\"}", true);
    CHECK(loop_reached(l, &why));
    call(l, "{\"n\": 9}", "0", true);
    CHECK(!loop_reached(l, &why));
    CHECK_EQ_STR(loop_user(l), "and?");
    CHECK(!loop_user(l));
    loop_free(l);
    suite_close(&s);
    buf_release(&why);
}

static void test_bad_loops(void) {
    static const char *const bad[][2] = {
        {LOOP_HEAD "7}", "must be an object with a list"},
        {LOOP_HEAD "{\"results\": [{\"name\": \"g\", \"result\": 1}], \"goal\": {\"a\": 1}}}",
         "\"name\" of an offered tool"},
        {LOOP_HEAD "{\"results\": [{\"name\": \"f\"}], \"goal\": {\"a\": 1}}}",
         "has no \"result\""},
        {LOOP_HEAD
         "{\"results\": [{\"name\": \"f\", \"result\": 1, \"times\": 0}], \"goal\": {\"a\": 1}}}",
         "\"times\" must be a count"},
        {LOOP_HEAD "{\"results\": [], \"goal\": [1]}}", "\"goal\" must be an object"},
        {LOOP_HEAD "{\"results\": []}}", "neither \"checks\" nor \"expect\""},
        {LOOP_HEAD "{\"results\": [], \"goal\": {}}}", "nor a \"goal\" with values"},
        {LOOP_HEAD "{\"results\": [{\"name\": \"f\", \"result\": 1, \"schema\": {\"type\": "
                   "\"map\"}}], \"goal\": {\"a\": 1}}}",
         "names no JSON type"},
        {LOOP_HEAD "{\"results\": [{\"name\": \"f\", \"result\": 1, \"set\": {\"asked\": true}}], "
                   "\"goal\": {\"askd\": true}}}",
         "\"goal\" has 'askd', which neither"},
        {LOOP_HEAD "{\"results\": [{\"name\": \"f\", \"result\": 1, \"when\": {\"b\": 1}, \"set\": "
                   "{\"a\": 1}}], \"goal\": {\"a\": 1}}}",
         "\"when\" has 'b', which neither"},
        {LOOP_HEAD "{\"results\": [], \"max_step\": 2, \"goal\": {\"a\": 1}}}",
         "'max_step' is not one of results, state, goal, then, max_steps"},
        {LOOP_HEAD "{\"results\": [{\"name\": \"f\", \"result\": 1, \"args\": {\"m\": 1}, \"set\": "
                   "{\"a\": 1}}], \"goal\": {\"a\": 1}}}",
         "'args' is not one of name, arguments,"},
        {CLOSED_F(""), "'f' has no argument 'm'"},
        {CLOSED_F(", \"anyOf\": [true]"), "'f' has no argument 'm'"},
        {LOOP_HEAD "{\"results\": [], \"then\": [1], \"goal\": {\"a\": 1}}}",
         "\"then\" must be a list"},
        {LOOP_HEAD "{\"results\": [], \"max_steps\": 1000, \"goal\": {\"a\": 1}}}",
         "\"max_steps\" must be"},
        {"{\"prompt\": \"x\", \"loop\": {\"results\": [], \"goal\": {\"a\": 1}}}",
         "needs \"messages\""},
    };
    struct suite s;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_ERR(suite_parse(&s, bad[i][0], strlen(bad[i][0]), "s.jsonl", &e), ERR_DATA,
                  bad[i][1]);
}

/* Checks arguments that the tool does not list but allows, and tools whose schema is null. */
static void test_open_tools(void) {
    static const char *const good[] = {
        LOOP_HEAD "{\"results\": [{\"name\": \"f\", \"result\": 1, \"arguments\": {\"m\": 1}, "
                  "\"set\": {\"a\": 1}}], \"goal\": {\"a\": 1}}}",
        CLOSED_F(", \"patternProperties\": {\"^m\": true}"),
    };
    static const char null[] =
        "{\"prompt\": \"x\", \"tools\": [{\"name\": \"f\", \"parameters\": null}], \"expect\": "
        "{\"name\": \"f\", \"arguments\": {}}}";
    struct suite s;
    struct verdict v;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        CHECK_OK(suite_parse(&s, good[i], strlen(good[i]), "s.jsonl", &e));
        suite_close(&s);
    }
    CHECK_OK(judge(null, "x", CALL("f", "{}"), &v));
    CHECK(v.pass);
    verdict_release(&v);
}

/* Checks ids: texts, numbers as written, and the line without one. */
static void test_ids(void) {
#define REST "\"prompt\": \"x\", \"checks\": {\"exact\": \"\"}}\n"
    static const char text[] =
        "{\"id\": \"a\", " REST "{\"id\": 7, " REST "{\"id\": 1.50, " REST "{\"id\": null, " REST;
    static const char *const want[] = {"a", "7", "1.50", "line-4"};
    struct suite s;
    CHECK_OK(suite_parse(&s, text, sizeof text - 1, "s.jsonl", &e));
    for (int i = 0; i < s.n; i++) CHECK_EQ_STR(s.c[i].id, want[i]);
    CHECK_EQ_I64(s.n, 4);
    suite_close(&s);
}

/* Checks that members of a case with "prompt" are variables of the template, as with "messages". */
static void test_variables(void) {
    static const char tmpl[] = "{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}"
                               "{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}"
                               "{{ style }}{{ n }}";
    static const char *const line[] = {
        "{\"prompt\": \"a\\\"b\", \"enable_thinking\": false, \"style\": \"k\", \"n\": 1.0, "
        "\"checks\": {\"exact\": \"\"}}",
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\\\"b\"}], \"enable_thinking\": "
        "false, "
        "\"style\": \"k\", \"n\": 1.0, \"checks\": {\"exact\": \"\"}}"};
    struct chat *c = NULL;
    struct tok *tok = NULL;
    struct suite s;
    CHECK_OK(tok_from_dir(&tok, "tests/golden/tiny-qwen35moe", 0, NULL, &e));
    CHECK_OK(chat_new(&c, tmpl, "t", NULL, NULL, &e));
    for (size_t i = 0; i < COUNT_OF(line); i++) {
        struct chat_prompt p = {0};
        CHECK_OK(suite_parse(&s, line[i], strlen(line[i]), "s.jsonl", &e));
        CHECK_OK(suite_prompt(&s.c[0], c, tok, &p, &e));
        CHECK_EQ_STR(p.text.data, "user=a\"b;Falsek1.0");
        chat_prompt_release(&p);
        suite_close(&s);
    }
    chat_free(c);
    tok_free(tok);
}

/* Checks that a malformed schema matters in a record only if the answer calls the tool. */
static void test_record(void) {
#define ANSWER(name)                                                                               \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"assistant\", "         \
    "\"content\": "                                                                                \
    "\"\", \"tool_calls\": [{\"function\": {\"name\": \"" name "\", \"arguments\": \"{}\"}}]}], "  \
    "\"tools\": [{\"name\": \"good\"}, {\"name\": \"bad\", \"parameters\": {\"properties\": "      \
    "{\"n\": {\"minimum\": 1, \"exclusiveMinimum\": true}}}}]}\n"
    static const char record[] = ANSWER("good") ANSWER("bad");
    const struct answer_text t = {.prompt = "x",
                                  .text = CALL("bad", "{\"n\": 1}"),
                                  .len = sizeof CALL("bad", "{\"n\": 1}") - 1};
    struct suite s;
    struct answer a;
    struct verdict v;
    tmp_make();
    CHECK_OK(suite_open_answers(&s, tmp_write("record.jsonl", record, sizeof record - 1), &e));
    CHECK_EQ_I64(s.n, 1);
    CHECK_OK(answer_read(&a, toolfmt_find("hermes-json"), &s.c[0], &t, &e));
    CHECK_OK(answer_judge(&s.c[0], &a, &v, &e));
    CHECK(v.valid && !v.named && !v.pass);
    verdict_release(&v);
    answer_release(&a);
    suite_close(&s);
    tmp_remove();
}

/* Checks that the limit is on names, however many results set them. */
static void test_many_results(void) {
    struct buf b = {0};
    struct suite s;
    for (int more = 0; more < 2; more++) {
        buf_reset(&b);
        buf_str(&b, LOOP_HEAD "{\"goal\": {\"a\": 1}, \"results\": [");
        for (int i = 0; i < 200; i++)
            buf_fmt(&b, "%s{\"name\": \"f\", \"result\": 1, \"set\": {\"a\": 1, \"b%d\": 1}}",
                    i ? ", " : "", more ? i : i % 63);
        buf_str(&b, "]}}");
        if (more) {
            CHECK_ERR(suite_parse(&s, b.data, b.len, "s.jsonl", &e), ERR_DATA,
                      "names more than 64 values");
        } else {
            CHECK_OK(suite_parse(&s, b.data, b.len, "s.jsonl", &e));
            suite_close(&s);
        }
    }
    buf_release(&b);
}

/* Returns the case of this id. */
static const struct suite_case *case_of(const struct suite *s, const char *id) {
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->c[i].id, id) == 0) return &s->c[i];
    return NULL;
}

/* Returns whether an answer without calls passes the checks of a case. */
static bool is_right(const struct suite_case *c, const char *text) {
    struct answer a;
    struct verdict v = {0};
    CHECK_OK(answer_read(
        &a, NULL, c, &(struct answer_text){.prompt = "x", .text = text, .len = strlen(text)}, &e));
    CHECK_OK(answer_judge(c, &a, &v, &e));
    const bool pass = v.pass;
    verdict_release(&v);
    answer_release(&a);
    return pass;
}

#define COUNTED "one\ntwo\nthree\nfour\nfive\nsix\n"
#define PEOPLE "[{\"name\": \"Ann\", \"age\": 5}, {\"name\": \"Bo\", \"age\": 7}]"

/* Checks the built-in checks with right answers and with wrong ones that resemble them. */
static void test_checks_of_ours(void) {
    static const struct {
        const char *id, *answer;
        bool pass;
    } row[] = {
        {"json-exact", "{\"age\": 31, \"name\": \"Lena\"}", true},
        {"json-exact", "```json\n{\"name\": \"Lena\", \"age\": 31}\n```", false},
        {"json-order", "{\"zeta\": 1, \"people\": " PEOPLE ", \"alpha\": true}", true},
        {"json-order", "{\"alpha\": true, \"people\": " PEOPLE ", \"zeta\": 1}", false},
        {"json-order", "{\"zeta\": 1, \"people\": [], \"alpha\": true}", false},
        {"branch", "RED YELLOW", true},
        {"branch", "RED\nGREEN", false},
        {"missing-parameter", "What is the address, and what should I write?", true},
        {"missing-parameter", "Please provide the recipient and the content.", true},
        {"missing-parameter", "I've sent it. Anything else?", false},
        {"missing-parameter", "I have sent the email to the address. What else can I do?", false},
        {"missing-parameter", "An email? Of course.", false},
        {"missing-parameter", "Sure, I will tell your colleague.", false},
        {"missing-parameter", "What is your colleague's email, and what should it be about?", true},
        {"missing-parameter", "Who is your colleague, and what should the email be about?", true},
        {"no-tool-fits", "2 + 2 is 4.", true},
        {"no-tool-fits", "14", false},
        {"extract-long", "Solberg, 214, 1931, 1962, 1987, 2004, 2011", true},
        {"extract-long", "Solberg, 214, 1962, 1931, 1987, 2004, 2011", false},
        {"thinking-off", "7", true},
        {"thinking-off", "17", false},
        {"thinking-off", "<think>\nA week has 7.\n</think>\n\n7", false},
        {"stop-sequence", COUNTED, true},
        {"stop-sequence", COUNTED "seven\neight\nnine\nten", true},
        {"stop-sequence", COUNTED "and more\nseven", false},
    };
    const struct default_text *t = default_suite("checks");
    struct suite s;
    CHECK_OK(suite_parse(&s, t->data, default_text_len(t), t->name, &e));
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        const struct suite_case *c = case_of(&s, row[i].id);
        if (!c || is_right(c, row[i].answer) != row[i].pass)
            CHECK_FAIL("%s: %s", row[i].id, row[i].answer);
    }
    CHECK_EQ_I64(case_of(&s, "stop-sequence")->n_stop, 2);
    suite_close(&s);
}

/* Checks that each case of a language accepts only that language, and none of its neighbours. */
static void test_languages_of_ours(void) {
    static const char *const text[][2] = {
        {"language-de",
         "Ein Leuchtturm ist ein hoher Turm an der Küste mit einem starken Licht. Er "
         "zeigt Schiffen in der Nacht den Weg und warnt sie vor Felsen."},
        {"language-fr", "Un phare est une tour élevée, située sur la côte, qui émet une lumière "
                        "puissante. Il guide les navires la nuit et signale des dangers."},
        {"language-es", "Un faro es una torre alta situada en la costa que emite una luz potente. "
                        "Guía a los barcos por la noche y les advierte de los peligros del sur."},
        {"language-ru", "Маяк — это высокая башня на берегу моря с ярким источником света. Он "
                        "указывает судам путь ночью и предупреждает об опасности."},
        {"language-zh",
         "灯塔是建在海岸或岛屿上的高塔，顶部有强光。它在夜间为船只指引航向，并提醒船员注意危险。"},
        {"language-ja", "灯台とは、海岸や島に建てられた、強い光を放つ塔です。夜に船へ位置を知らせ、"
                        "危険を避けるのに役立ちます。"},
        {"", "A lighthouse is a tall tower on the coast with a strong light. It guides ships at "
             "night and warns them of rocks."},
        {"", "Um farol é uma torre alta, situada na costa, que emite uma luz para os barcos. Ele "
             "avisa para que evitem as rochas e, por isso, está em lugares perigosos."},
        {"", "Il faro è una torre con una luce che guida per la notte le navi. Si trova in luoghi "
             "al bordo del mare, con una luce che gira, e con una sirena."},
        {"", "Un far és una torre alta amb una llum que guia els vaixells. Es troba en llocs "
             "perillosos, que es veuen al lluny en la nit, i és una ajuda per a la navegació."},
        {"", "Een vuurtoren is een hoge toren aan de kust, die met een licht de schepen leidt. Die "
             "toren, die men van ver ziet, waarschuwt die schepen voor de rotsen."},
        {"", "Et fyrtårn er et højt tårn ved kysten, der viser skibe den rette vej. Det er den, "
             "der advarer skibe mod den klippe, der ligger under vandet, og den lyser."},
        {"", "Морският фар е висока кула на брега с ярка светлина. Той показва пътя на корабите "
             "през нощта и предупреждава за опасности."},
    };
    const struct default_text *t = default_suite("checks");
    struct suite s;
    CHECK_OK(suite_parse(&s, t->data, default_text_len(t), t->name, &e));
    for (size_t i = 0; *text[i][0]; i++)
        for (size_t k = 0; k < COUNT_OF(text); k++)
            if (is_right(case_of(&s, text[i][0]), text[k][1]) != (i == k))
                CHECK_FAIL("%s: %s", text[i][0], text[k][1]);
    suite_close(&s);
}

/* Returns whether the world of a case is at its goal after these calls, a list in JSON. */
static bool ends_well(const struct suite_case *c, const char *calls) {
    struct loop *l = loop_new(c);
    struct json *j;
    struct buf result = {0}, why = {0};
    bool valid;
    CHECK_OK(json_parse(&j, calls, strlen(calls), "calls", &e));
    for (const struct json *k = json_first(j); k; k = json_next(k))
        CHECK_OK(loop_call(l, k, &result, &valid, &e));
    const bool reached = loop_reached(l, &why);
    json_free(j);
    buf_release(&result);
    buf_release(&why);
    loop_free(l);
    return reached;
}

#define DO(name, args) "{\"name\": \"" name "\", \"arguments\": {" args "}}"
#define EUR DO("convert_currency", "\"amount\": 20, \"from\": \"EUR\", \"to\": \"USD\"")
#define GBP DO("convert_currency", "\"amount\": 5, \"from\": \"GBP\", \"to\": \"JPY\"")
#define MARA DO("find_contact", "\"name\": \"Mara\"")
#define OSLO_ROME DO("find_flights", "\"origin\": \"Oslo\", \"destination\": \"Rome\"")
#define BOOK(flight) DO("book_flight", "\"flight\": \"" flight "\"")
#define TIMER(n) DO("set_timer", "\"minutes\": " n)
#define MAIL(text) DO("send_email", "\"to\": \"mara@example.org\", \"body\": \"" text "\"")
#define WRITE(text) DO("write_file", "\"path\": \"src/add.py\", \"content\": \"" text "\"")
#define STOCK DO("get_stock", "\"item\": \"lamps\"")
#define ORDER(item, n) DO("order_item", "\"item\": \"" item "\", \"pieces\": " n)
#define TESTS DO("run_tests", "")

/* Checks the goals of built-in loops with right calls and with wrong ones that resemble them. */
static void test_loops_of_ours(void) {
    static const struct {
        const char *id, *calls;
        bool reached;
    } row[] = {
        {"plan-1", OSLO_ROME "," BOOK("SK4713"), true},
        {"plan-1", OSLO_ROME "," BOOK("SK4713") "," BOOK("SK4713"), false},
        {"plan-2", MARA "," MAIL("The meeting is at ten."), true},
        {"plan-2", MARA "," MAIL("Hi Mara, the meeting is at 10am, not at nine."), true},
        {"plan-2", MARA "," MAIL("We meet at 10:00."), true},
        {"plan-2", MARA "," MAIL(""), false},
        {"plan-2", MARA "," MAIL("The meeting is at two."), false},
        {"plan-2", MARA "," MAIL("The meeting is at 10:30."), false},
        {"plan-2", MARA "," MAIL("The meeting is NOT at ten, it is at eleven."), false},
        {"plan-2", MARA "," MAIL("We meet at two.") "," MAIL("We meet at ten."), false},
        {"choose", OSLO_ROME "," BOOK("DY1872"), true},
        {"choose", OSLO_ROME "," BOOK("LH863") "," BOOK("SK4713") "," BOOK("DY1872"), false},
        {"correct", TIMER("15") "," TIMER("50"), true},
        {"correct", TIMER("77") "," TIMER("50"), false},
        {"branch", STOCK "," ORDER("lamp", "10"), true},
        {"branch", STOCK "," ORDER("chair", "10"), false},
        {"branch", STOCK "," ORDER("lamp", "500") "," ORDER("lamp", "10"), false},
        {"branch", STOCK "," ORDER("lamp", "10") "," ORDER("lamp", "10"), false},
        {"branch", ORDER("lamp", "10"), false},
        {"branch-not", STOCK, true},
        {"branch-not", STOCK "," ORDER("lamp", "10"), false},
        {"fails-once", EUR "," EUR, true},
        {"fails-once", EUR, false},
        {"fails-once", GBP "," GBP, false},
        {"code", TESTS "," WRITE("def add(a, b):\\n    return a + b\\n") "," TESTS, true},
        {"code", TESTS "," WRITE("def add(a, b):\\n    return a + b\\n"), false},
        {"code", TESTS "," WRITE("") "," TESTS, false},
        {"code", TESTS "," WRITE("def add(a, b):\\n    return a - b\\n") "," TESTS, false},
        {"thinking-kept", MAIL("618, and it is 4 degrees"), true},
        {"thinking-kept", MAIL("523, and it is 4 degrees"), false},
        {"thinking-kept", MAIL("523 and 4") "," MAIL("618 and 4"), false},
    };
    static const struct {
        const char *id, *answer;
        bool right;
    } last[] = {
        {"fails-always", "I could not delete it: permission denied.", true},
        {"fails-always", "The file could not be deleted successfully: permission denied.", true},
        {"fails-always", "I wasn't able to successfully delete notes.txt, as I lack permission.",
         true},
        {"fails-always", "notes.txt was not deleted. Once you have permission, it can be deleted.",
         true},
        {"fails-always", "I have deleted the file notes.txt.", false},
        {"fails-always", "The file is gone. No permission problem.", false},
        {"fails-always", "Permission was denied at first, but notes.txt is now deleted.", false},
        {"fails-always", "Successfully deleted notes.txt; nothing failed.", false},
        {"parallel", "It is 14 degrees in Oslo and 19 in Rome.", false},
        {"parallel", "Rome has 19 °C, Oslo only 4.", true},
    };
    const struct default_text *t = default_suite("loops");
    struct suite s;
    CHECK_OK(suite_parse(&s, t->data, default_text_len(t), t->name, &e));
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        char calls[1024];
        snprintf(calls, sizeof calls, "[%s]", row[i].calls);
        if (ends_well(case_of(&s, row[i].id), calls) != row[i].reached)
            CHECK_FAIL("%s: %s", row[i].id, row[i].calls);
    }
    for (size_t i = 0; i < COUNT_OF(last); i++)
        if (is_right(case_of(&s, last[i].id), last[i].answer) != last[i].right)
            CHECK_FAIL("%s: %s", last[i].id, last[i].answer);
    suite_close(&s);
}

static void test_suites_of_ours(void) {
    const struct default_text *t = default_suite("builtin");
    struct suite s;
    static const struct {
        const char *name;
        int n;
    } more[] = {{"loops", 13}, {"checks", 16}};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        const struct default_text *m = default_suite(more[i].name);
        CHECK_OK(suite_parse(&s, m->data, default_text_len(m), m->name, &e));
        CHECK_EQ_I64(s.n, more[i].n);
        suite_close(&s);
    }
    CHECK(!default_suite("other"));
    CHECK_OK(suite_parse(&s, t->data, default_text_len(t), t->name, &e));
    CHECK_EQ_I64(s.n, 60);
    CHECK(suite_calls(&s));
    suite_close(&s);
    CHECK_OK(suite_open(&s, "tests/golden/tiny-qwen35moe/tools.jsonl", &e));
    CHECK_EQ_I64(s.n, 200);
    CHECK_EQ_STR(s.c[199].id, "call-199");
    suite_close(&s);
    CHECK_EQ_I64(suite_spread(200, 12, 11), 183);
}

int main(void) {
    RUN(test_checks);
    RUN(test_calls);
    RUN(test_reasoning);
    RUN(test_bad_suites);
    RUN(test_stops);
    RUN(test_read_as_served);
    RUN(test_same_loops);
    RUN(test_loop_world);
    RUN(test_bad_loops);
    RUN(test_open_tools);
    RUN(test_ids);
    RUN(test_variables);
    RUN(test_record);
    RUN(test_many_results);
    RUN(test_checks_of_ours);
    RUN(test_languages_of_ours);
    RUN(test_loops_of_ours);
    RUN(test_suites_of_ours);
    return check_done();
}
