// SPDX-License-Identifier: MIT
/* tests/unit/test_suite.c - suites of cases, and verdicts on answers. The answers were written
 * manually by the rules in docs/formats/suite.md; no model runs here. */
#include "calib/defaults.h"
#include "tests/check.h"
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
    int rc = answer_read(&a, toolfmt_find("hermes-json"), &s.c[0], prompt, text, strlen(text),
                         false, &e);
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
    };
    struct suite s;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_ERR(suite_parse(&s, bad[i][0], strlen(bad[i][0]), "s.jsonl", &e), ERR_DATA,
                  bad[i][1]);
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
        " {\"name\": \"f\", \"arguments\": {\"n\": 9}, \"result\": 0, \"set\": {\"alarm\": "
        "true}}]}}";
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

static void test_suites_of_ours(void) {
    const struct default_text *t = default_suite("builtin");
    struct suite s;
    static const struct {
        const char *name;
        int n;
    } more[] = {{"loops", 12}, {"checks", 16}};
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
    RUN(test_loop_world);
    RUN(test_bad_loops);
    RUN(test_suites_of_ours);
    return check_done();
}
