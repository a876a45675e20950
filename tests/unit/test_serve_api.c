// SPDX-License-Identifier: MIT
/* API formats, without a model and without sockets: conversion of requests to the conversation that
 * a template receives, and of events to the bytes of a stream. Expected values were written
 * manually from the public descriptions of the APIs. */
#include <math.h>

#include "base/attr.h"
#include "base/mem.h"
#include "serve/conv_repair.h"
#include "serve/history.h"
#include "serve/logprobs.h"
#include "serve/task.h"
#include "tests/check.h"

static struct err e;
static const struct sample_opts usual = {.temp = 1, .top_p = 1, .repeat_penalty = 1};

static int read_body(const struct api *api, const char *body, struct ask *a, struct fault *f) {
    struct json *j = NULL;
    memset(f, 0, sizeof *f);
    ask_init(a, &usual, -1, -1);
    if (json_parse(&j, body, strlen(body), "body", &e)) {
        CHECK_FAIL("%s: %s", body, e.msg);
        return -1;
    }
    const int rc = api->read(a, j, f);
    json_free(j);
    return rc;
}

/* ---- conversations ---- */

/* Returns the same value without white space; members keep their order, numbers their spelling. */
static char *compact(const char *text) {
    struct json *j;
    struct buf b = {0};
    CHECK_OK(json_parse(&j, text, strlen(text), "conv", &e));
    json_write(&b, j);
    json_free(j);
    return buf_take(&b);
}

static void test_conversations(void) {
    static const struct {
        const struct api *api;
        const char *body, *conv;
    } rows[] = {
        /* parts, roles, reasoning under its other name; a tool is unchanged: 1.0, big integers
         */
        {&api_chat,
         "{\"messages\": [{\"role\": \"developer\", \"content\": [{\"type\": \"text\", \"text\": "
         "\"a\"}, "
         "{\"type\": \"text\", \"text\": \"b\"}]}, {\"role\": \"assistant\", \"content\": null, "
         "\"reasoning\": \"hm\", \"tool_calls\": [{\"id\": \"c1\", \"type\": \"function\", "
         "\"function\": "
         "{\"name\": \"f\", \"arguments\": \"{}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": "
         "\"c1\", "
         "\"content\": \"1\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": "
         "\"f\", "
         "\"parameters\": {\"maximum\": 1.0, \"x\": 12345678901234567890}}}]}",
         "{\"messages\":[{\"role\":\"system\",\"content\":\"a\\nb\"},{\"role\":\"assistant\","
         "\"content\":null,"
         "\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\": \"c1\", \"type\": \"function\", "
         "\"function\": {\"name\": \"f\", \"arguments\": "
         "\"{}\"}}]},{\"role\":\"tool\",\"content\":\"1\","
         "\"tool_call_id\":\"c1\",\"name\":\"f\"}],\"tools\":[{\"type\": \"function\", "
         "\"function\": {\"name\": "
         "\"f\", "
         "\"parameters\": {\"maximum\": 1.0, \"x\": 12345678901234567890}}}]}"},
        /* `custom` is ignored unless it is a complete call of a custom tool */
        {&api_chat,
         "{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": "
         "[{\"id\": \"a\", \"custom\": null, \"function\": {\"name\": \"f\"}}, {\"id\": \"b\", "
         "\"custom\": {\"name\": \"x\", \"input\": null}, \"function\": {\"name\": \"g\"}}, "
         "{\"id\": \"c\", \"function\": null, \"custom\": {\"name\": \"h\", \"input\": "
         "\"i\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"a\", \"content\": \"1\"}, {\"role\": "
         "\"tool\", \"tool_call_id\": \"c\", \"content\": \"3\"}]}",
         "{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": "
         "[{\"id\": \"a\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": "
         "\"{}\"}}, {\"id\": \"b\", \"type\": \"function\", \"function\": {\"name\": \"g\", "
         "\"arguments\": \"{}\"}}, {\"id\": \"c\", \"type\": \"function\", \"function\": "
         "{\"name\": \"h\", \"arguments\": \"{\\\"input\\\": \\\"i\\\"}\"}}]}, {\"role\": "
         "\"tool\", \"content\": \"1\", \"tool_call_id\": \"a\", \"name\": \"f\"}, {\"role\": "
         "\"tool\", \"content\": \"3\", \"tool_call_id\": \"c\", \"name\": \"h\"}]}"},
        /* results in the order of the calls, then the text; the billing line is dropped */
        {&api_messages,
         "{\"max_tokens\": 1, \"system\": [{\"type\": \"text\", \"text\": "
         "\"x-anthropic-billing-header: "
         "cch=1\"}, {\"type\": \"text\", \"text\": \"s\"}], \"messages\": [{\"role\": "
         "\"assistant\", "
         "\"content\": [{\"type\": \"thinking\", \"thinking\": \"t\", \"signature\": \"x\"}, "
         "{\"type\": "
         "\"tool_use\", \"id\": \"a\", \"name\": \"f\", \"input\": {\"n\": 1.0}}, {\"type\": "
         "\"tool_use\", \"id\": \"b\", \"name\": \"g\", \"input\": {}}]}, {\"role\": \"user\", "
         "\"content\": [{\"type\": \"text\", \"text\": \"u\"}, {\"type\": \"tool_result\", "
         "\"tool_use_id\": \"b\", \"content\": \"rb\"}, {\"type\": \"tool_result\", "
         "\"tool_use_id\": "
         "\"a\", \"content\": [{\"type\": \"text\", \"text\": \"ra\"}]}]}]}",
         "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"assistant\","
         "\"content\":null,"
         "\"reasoning_content\":\"t\",\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\","
         "\"function\":"
         "{\"name\":\"f\",\"arguments\":\"{\\\"n\\\": 1.0}\"}},{\"id\":\"b\",\"type\":\"function\","
         "\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_"
         "id\":\"a\","
         "\"name\":\"f\",\"content\":\"ra\"},{\"role\":\"tool\",\"tool_call_id\":\"b\",\"name\":"
         "\"g\","
         "\"content\":\"rb\"},{\"role\":\"user\",\"content\":\"u\"}]}"},
        /* consecutive reasoning, text and calls form one turn */
        {&api_responses,
         "{\"instructions\": \"s\", \"input\": [{\"role\": \"user\", \"content\": [{\"type\": "
         "\"input_text\", \"text\": \"u\"}]}, {\"type\": \"reasoning\", \"id\": \"rs\", "
         "\"summary\": [], "
         "\"encrypted_content\": \"hone1:dGhvdWdodA==\"}, {\"type\": \"message\", \"role\": "
         "\"assistant\", \"content\": [{\"type\": \"output_text\", \"text\": \"x\"}]}, {\"type\": "
         "\"function_call\", \"call_id\": \"a\", \"name\": \"f\", \"arguments\": \"{}\"}, "
         "{\"type\": "
         "\"function_call\", \"call_id\": \"b\", \"name\": \"g\", \"arguments\": \"{}\"}, "
         "{\"type\": "
         "\"function_call_output\", \"call_id\": \"b\", \"output\": \"rb\"}, {\"type\": "
         "\"function_call_output\", \"call_id\": \"a\", \"output\": \"ra\"}, {\"type\": "
         "\"what\"}]}",
         "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":"
         "\"u\"},"
         "{\"role\":\"assistant\",\"content\":\"x\",\"reasoning_content\":\"thought\",\"tool_"
         "calls\":["
         "{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}, "
         "{\"id\":"
         "\"b\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]},{"
         "\"role\":"
         "\"tool\",\"tool_call_id\":\"a\",\"name\":\"f\",\"content\":\"ra\"},{\"role\":\"tool\","
         "\"tool_call_id\":\"b\",\"name\":\"g\",\"content\":\"rb\"}]}"},
        {&api_ollama_chat,
         "{\"messages\": [{\"role\": \"assistant\", \"content\": \"\", \"thinking\": \"t\", "
         "\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"n\": 1.0}}}]}, "
         "{\"role\": "
         "\"tool\", \"tool_name\": \"f\", \"content\": \"1\"}]}",
         "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"t\","
         "\"tool_calls\":"
         "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"n\": "
         "1.0}}}]},{\"role\":"
         "\"tool\",\"content\":\"1\",\"name\":\"f\"}]}"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ask a;
        struct fault f;
        if (read_body(rows[i].api, rows[i].body, &a, &f)) {
            CHECK_FAIL("row %zu: %s", i, f.msg);
        } else {
            char *is = compact(a.conv), *want = compact(rows[i].conv);
            CHECK_EQ_STR(is, want);
            free(is);
            free(want);
        }
        ask_release(&a);
    }
}

#define CHAT(more) "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]" more "}"
#define MSG(more)                                                                                  \
    "{\"max_tokens\": 1, \"messages\": [{\"role\": \"user\", \"content\": \"x\"}]" more "}"

static void test_refused(void) {
    static const struct {
        const struct api *api;
        const char *body, *param, *text;
    } rows[] = {
        {&api_chat, "{}", "messages", "a list"},
        {&api_chat, "{\"messages\": []}", "messages", "a list"},
        {&api_chat, "{\"messages\": [7]}", "messages[0]", "an object"},
        {&api_chat, "{\"messages\": [{\"role\": \"x\"}]}", "messages[0].role", "must be system"},
        {&api_chat,
         "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]}",
         "messages[0].content[0]", "no data"},
        {&api_chat, "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{}]}]}",
         "messages[0].tool_calls[0]", "a name"},
        {&api_chat, CHAT(", \"temperature\": -1"), "temperature", "not between"},
        {&api_chat, CHAT(", \"temperature\": \"1\""), "temperature", "a number"},
        {&api_chat, CHAT(", \"top_k\": 1.5"), "top_k", "an integer"},
        {&api_chat, CHAT(", \"top_k\": 1e300"), "top_k", "an integer"},
        {&api_chat, CHAT(", \"max_tokens\": -2"), "max_tokens", ">= 0"},
        {&api_chat, CHAT(", \"n\": 17"), "n", "1 to 16"},
        {&api_chat, CHAT(", \"top_logprobs\": 21"), "top_logprobs", "0 to 20"},
        {&api_chat, CHAT(", \"stop\": [7]"), "stop", "256"},
        {&api_chat, CHAT(", \"stream\": 1"), "stream", "true or false"},
        {&api_chat, CHAT(", \"tools\": [{\"type\": \"custom\"}]"), "tools[0]", "function"},
        {&api_chat,
         CHAT(", \"tools\": [{\"type\": \"custom\", \"custom\": {\"name\": \"f\", \"format\": "
              "{\"type\": \"grammar\", \"syntax\": \"x\", \"definition\": \"\"}}}]"),
         "tools[0]", "lark or regex"},
        {&api_chat,
         CHAT(", \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"a b\"}}]"),
         "tools[0]", "name: must have"},
        {&api_chat, CHAT(", \"tool_choice\": \"some\""), "tool_choice", "not one of"},
        {&api_chat, CHAT(", \"tool_choice\": {\"type\": \"function\"}"), "tool_choice", "no name"},
        {&api_chat, CHAT(", \"logit_bias\": {\"x\": 1}"), "logit_bias", "a token id"},
        {&api_chat, CHAT(", \"mirostat\": 2"), "mirostat", "sampling"},
        {&api_chat, CHAT(", \"chat_template\": \"x\""), "chat_template", "templates"},
        {&api_chat, CHAT(", \"tool_choice\": {\"type\": \"allowed_tools\"}"), "tool_choice",
         "mode"},
        {&api_responses,
         "{\"input\": \"x\", \"tool_choice\": {\"type\": \"allowed_tools\", \"mode\": \"auto\", "
         "\"tools\": [{}]}}",
         "tool_choice", "functions with names"},
        {&api_chat, CHAT(", \"return_tokens\": true"), "return_tokens", "/tokenize"},
        {&api_chat, CHAT(", \"return_progress\": 1"), "return_progress", "true or false"},
        {&api_chat, CHAT(", \"grammar\": 7"), "grammar", "the text of a grammar"},
        {&api_chat, CHAT(", \"structured_outputs\": {\"structural_tag\": {}}"),
         "structured_outputs", "one of"},
        {&api_chat,
         CHAT(", \"grammar\": \"root ::= [a]\", \"response_format\": {\"type\": "
              "\"json_object\"}"),
         "response_format", "another form"},
        {&api_chat, CHAT(", \"audio\": {}"), "audio", "only text"},
        {&api_text, "{\"prompt\": []}", "prompt", "a string"},
        {&api_text, "{\"prompt\": [-1]}", "prompt", "a string"},
        {&api_text, "{\"prompt\": \"x\", \"suffix\": \"y\"}", "suffix", "fill-in-the-middle"},
        {&api_text, "{\"prompt\": \"x\", \"best_of\": 2}", "best_of", "equal to n"},
        {&api_messages, "{\"messages\": []}", "max_tokens", "required"},
        {&api_messages, MSG(", \"temperature\": 1.5"), "temperature", "not between"},
        {&api_messages, MSG(", \"tool_choice\": {\"type\": \"tool\"}"), "tool_choice",
         "tool with a name"},
        {&api_messages, MSG(", \"mcp_servers\": [{}]"), "mcp_servers", "not supported"},
        {&api_messages,
         "{\"max_tokens\": 1, \"messages\": [{\"role\": \"assistant\", \"content\": \"x \"}]}",
         "messages", "trailing whitespace"},
        {&api_messages,
         "{\"max_tokens\": 1, \"messages\": [{\"role\": \"user\", \"content\": [{\"type\": "
         "\"tool_result\", \"tool_use_id\": \"t\"}]}]}",
         "messages[0].content[0]", "corresponding"},
        {&api_responses, "{}", "input", "a string"},
        {&api_responses, "{\"input\": \"x\", \"previous_response_id\": \"r\"}",
         "previous_response_id", "not stored"},
        {&api_responses, "{\"input\": \"x\", \"truncation\": \"auto\"}", "truncation", "disabled"},
        {&api_responses,
         "{\"input\": [{\"type\": \"function_call_output\", \"call_id\": \"c\", \"output\": "
         "\"\"}]}",
         "input[0]", "call_id 'c'"},
        {&api_ollama_text, "{\"prompt\": \"x\", \"context\": [1]}", "context", "messages"},
        {&api_ollama_chat, CHAT(", \"options\": {\"top_p\": 2}"), "options.top_p", "not between"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ask a;
        struct fault f;
        const int status = read_body(rows[i].api, rows[i].body, &a, &f);
        if (status != 400 || strcmp(f.param, rows[i].param) != 0 || !strstr(f.msg, rows[i].text))
            CHECK_FAIL("row %zu: status %d, '%s': %s", i, status, f.param, f.msg);
        ask_release(&a);
    }
}

/* Checks which messages of the conversation have cache marks. */
static void test_marks(void) {
    static const char mark
        [] = "\"cache_control\": {\"type\": \"ephemeral\"",
    body[] =
        "{\"max_tokens\": 1, \"system\": [{\"type\": \"text\", \"text\": \"s\", %s, \"ttl\": "
        "\"1h\"}}], "
        "\"tools\": [{\"name\": \"f\", %s}}], \"messages\": [{\"role\": \"user\", \"content\": "
        "\"x\"}, {\"role\": \"assistant\", \"content\": [{\"type\": \"tool_use\", \"id\": \"a\", "
        "\"name\": \"f\", \"input\": {}}]}, {\"role\": \"user\", \"content\": [{\"type\": "
        "\"tool_result\", \"tool_use_id\": \"a\", \"content\": \"r\", %s}}, {\"type\": \"text\", "
        "\"text\": \"y\"}]}]}";
    struct buf text = {0};
    struct ask a;
    struct fault f;
    buf_fmt(&text, body, mark, mark, mark);
    CHECK_EQ_I64(read_body(&api_messages, text.data, &a, &f), 0);
    CHECK_EQ_I64(a.n_marks, 2); /* marks of tools and system are at the same position */
    CHECK(a.mark[0].message == -1 && a.mark[0].hour);
    /* s, x, the call, its result, y: results and texts of a message stay together */
    CHECK(a.mark[1].message == 4 && !a.mark[1].hour);
    ask_release(&a);
    buf_release(&text);
}

static void test_fields(void) {
    struct ask a;
    struct fault f;
    CHECK_EQ_I64(
        read_body(&api_chat,
                  CHAT(", \"max_tokens\": 5, \"max_completion_tokens\": 7, \"temperature\": 0.5,"
                       " \"stop\": \"S\", \"logprobs\": true, \"seed\": null, \"new_field\": 1,"
                       " \"reasoning_effort\": \"none\", \"logit_bias\": {\"5\": -100},"
                       " \"parallel_tool_calls\": false, \"n\": 2"),
                  &a, &f),
        0);
    CHECK_EQ_I64(a.n_max, 7);
    CHECK_CLOSE(a.sample.temp, 0.5, 0);
    CHECK_EQ_STR(a.stop[0], "S");
    CHECK_EQ_I64(a.top, 0);
    CHECK_EQ_I64(a.think, ASK_THINK_OFF);
    CHECK(a.seed == -1 && a.one_call && a.n == 2 && a.n_bias == 1 && isinf(a.bias[0].by));
    CHECK_EQ_STR(a.ignored.data, "new_field");
    ask_release(&a);
}

/* Checks that a switch of thinking and an effort may come in either order, and that the switch
 * decides; in Anthropic's API an effort is no switch. */
static void test_switches(void) {
    static const struct {
        const struct api *api;
        const char *one, *other;
        enum ask_think think;
    } rows[] = {
        {&api_chat, "\"thinking\": {\"type\": \"disabled\"}", "\"reasoning_effort\": \"low\"",
         ASK_THINK_OFF},
        {&api_chat, "\"enable_thinking\": true", "\"reasoning_effort\": \"none\"", ASK_THINK_ON},
        {&api_chat, "\"chat_template_kwargs\": {\"enable_thinking\": false}",
         "\"reasoning\": {\"effort\": \"high\"}", ASK_THINK_OFF},
        {&api_chat, "\"reasoning_effort\": \"low\"", "\"seed\": 1", ASK_THINK_ON},
        {&api_chat, "\"reasoning\": {\"enabled\": false, \"effort\": \"low\"}", "\"seed\": 1",
         ASK_THINK_OFF},
        {&api_messages, "\"thinking\": {\"type\": \"disabled\"}",
         "\"output_config\": {\"effort\": \"low\"}", ASK_THINK_OFF},
        {&api_messages, "\"output_config\": {\"effort\": \"low\"}", "\"seed\": 1", ASK_THINK_AUTO},
    };
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
        const struct api *api = rows[i / 2].api;
        const char *one = rows[i / 2].one, *other = rows[i / 2].other;
        struct buf more = {0}, body = {0};
        struct ask a;
        struct fault f;
        buf_fmt(&more, ", %s, %s", i % 2 ? one : other, i % 2 ? other : one);
        buf_fmt(&body, "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]%s%s}", more.data,
                api == &api_messages ? ", \"max_tokens\": 9" : "");
        CHECK_EQ_I64(read_body(api, body.data, &a, &f), 0);
        if (a.think != rows[i / 2].think) CHECK_FAIL("%s: %d", body.data, (int)a.think);
        ask_release(&a);
        buf_release(&more);
        buf_release(&body);
    }
}

/* ---- text to events ---- */

struct heard {
    struct buf all; /* "R:..." and so on; adjacent events of a kind are merged */
    enum event_kind last;
};
static void hear(void *ud, const struct event *ev) {
    struct heard *h = ud;
    static const char *const names[] = {"A", "R", "C", "call", "args", "end", "E", "D"};
    if (!h->all.len || h->last != ev->kind) buf_fmt(&h->all, "|%s:", names[ev->kind]);
    buf_add(&h->all, ev->s, ev->n);
    h->last = ev->kind;
}

static void say(const char *text, size_t step, const char *stop, bool tools, struct heard *h,
                const char **hit) {
    struct ask a = {.top = -1};
    struct parser *s;
    struct buf problems = {0};
    *hit = NULL;
    if (stop) a.stop[a.n_stop++] = xstrdup(stop);
    if (tools) a.tools = xstrdup("[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]");
    CHECK_OK(parser_new(&s, &a, toolfmt_find("hermes-json"), TOOL_THINK_NONE, 0, hear, h, &e));
    const size_t n = strlen(text);
    for (size_t at = 0; at < n && !*hit; at += step)
        (void)parser_feed(s, text + at, n - at < step ? n - at : step, hit);
    const char *late;
    (void)parser_end(s, false, &problems, &late);
    if (late) *hit = late;
    *hit = *hit ? "hit" : NULL;
    parser_free(s);
    buf_release(&problems);
    ask_release(&a);
}

static void test_speak(void) {
    static const struct {
        const char *text, *stop, *events;
        bool hit;
    } rows[] = {
        {"<think>\nlet me\xe2\x82\xac see\n</think>\n\nHello w\xc3\xb6rld", NULL,
         "|R:let me\xe2\x82\xac see|C:Hello w\xc3\xb6rld", false},
        {"<think>STOP</think>one STOP two", "STOP", "|R:STOP|C:one ", true},
        {"one STO two", "STOP", "|C:one STO two", false},
        {"x<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1.0, \"s\": "
         "\"STOP\"}}\n</tool_call>",
         "STOP", "|C:x|call:f|args:{\"a\": 1.0, \"s\": \"STOP\"}|end:", false},
        {"x<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n\nso STOP.",
         "STOP", "|C:x\nso |call:f|args:{\"a\": 1}|end:", true},
        {"a\xff"
         "b",
         NULL,
         "|C:a\xef\xbf\xbd"
         "b",
         false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t step = 1; step < 40; step++) {
            struct heard h = {.last = EV_ADMITTED};
            const char *hit;
            say(rows[i].text, step, rows[i].stop, true, &h, &hit);
            if (strcmp(h.all.data, rows[i].events) != 0 || (hit != NULL) != rows[i].hit)
                CHECK_FAIL("row %zu in steps of %zu: %s (%s)", i, step, h.all.data,
                           hit ? "hit" : "no");
            buf_release(&h.all);
        }
}

/* Checks that text that looks like a call stays text if no tools were offered. */
static void test_no_tools(void) {
    static const char *const rows[][2] = {
        {"<think>hm</think>x <tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
         "|R:hm|C:x <tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"},
        {"\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call> y",
         "|C:<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call> y"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t step = 1; step < 40; step++) {
            struct heard h = {.last = EV_ADMITTED};
            const char *hit;
            say(rows[i][0], step, NULL, false, &h, &hit);
            CHECK_EQ_STR(h.all.data, rows[i][1]);
            buf_release(&h.all);
        }
}

#define TOOL_F "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]"

/* Feeds a text to a parser in steps of `step` bytes, checks the events, and releases a. */
static void check_events(struct ask *a, enum tool_think think, const char *text, size_t step,
                         bool cut, const char *want) {
    struct heard h = {.last = EV_ADMITTED};
    struct buf problems = {0};
    struct parser *s;
    const char *hit;
    const size_t n = strlen(text);
    CHECK_OK(parser_new(&s, a, toolfmt_find("hermes-json"), think, 0, hear, &h, &e));
    for (size_t at = 0; at < n; at += step)
        (void)parser_feed(s, text + at, n - at < step ? n - at : step, &hit);
    (void)parser_end(s, cut, &problems, &hit);
    const char *got = h.all.data ? h.all.data : "";
    if (strcmp(got, want) != 0) CHECK_FAIL("%s in steps of %zu: %s", text, step, got);
    parser_free(s);
    buf_release(&h.all);
    buf_release(&problems);
    ask_release(a);
}

/* Checks that an answer that continues a text keeps the white space at its start, except for what
 * ends the client's own text, also if the rest is a call or the parser is off. */
static void test_continued(void) {
    static const struct {
        const char *cut, *text, *events;
        bool tags;
    } rows[] = {{"", " Paris. ", "|C: Paris.", false},
                {NULL, "\n\n Paris", "|C:\n\n Paris", false},
                {" ", " Paris", "|C:Paris", false},
                {"\n\n", "\n Paris\n", "|C: Paris", false},
                {"\n\n", " \nParis", "|C: \nParis", false},
                {" ", "  Paris\n", "|C: Paris\n", true},
                {"\n", "Paris\nx", "|C:Paris\nx", false},
                {"", " ", "", false},
                {"", " x <tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
                 "|C: x|call:f|args:{}|end:", false},
                {"", "\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
                 "|call:f|args:{}|end:", false}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t step = 1; step < 40; step++) {
            struct ask a = {.top = -1, .go_on = true, .tags = rows[i].tags, .stream = step % 2};
            a.cut = rows[i].cut ? xstrdup(rows[i].cut) : NULL;
            if (!a.tags) a.tools = xstrdup(TOOL_F);
            check_events(&a, TOOL_THINK_UNKNOWN, rows[i].text, step, false, rows[i].events);
        }
}

/* Checks that reasoning is content between its tags if the request wants that, and that calls
 * after it are calls all the same. */
static void test_tags(void) {
#define CALL "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>"
    static const struct {
        const char *text, *events;
        enum tool_think think;
        bool tools, cut;
    } rows[] = {
        {"<think>hm</think>Hello", "|C:<think>hm</think>Hello", TOOL_THINK_NONE, false, false},
        {"<think>hm</think>Hello", "|C:<think>hm</think>Hello", TOOL_THINK_NONE, true, false},
        {"<think>hm</think>Hello" CALL,
         "|C:<think>hm</think>Hello|call:f|args:{}|end:", TOOL_THINK_NONE, true, false},
        {"hm</think>" CALL, "|C:hm</think>|call:f|args:{}|end:", TOOL_THINK_OPEN, true, false},
        {"hm</think>", "|C:hm</think>", TOOL_THINK_OPEN, true, false},
        {"hm", "|C:hm", TOOL_THINK_OPEN, true, true},
        {"Hello", "|C:Hello", TOOL_THINK_NONE, true, false}};
#undef CALL
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t step = 1; step < 40; step++) {
            struct ask a = {.top = -1, .tags = true, .stream = step % 2};
            if (rows[i].tools) a.tools = xstrdup(TOOL_F);
            check_events(&a, rows[i].think, rows[i].text, step, rows[i].cut, rows[i].events);
        }
}

static bool is_listed(void *ud, const char *text) {
    return strstr(ud, text) != NULL;
}

/* Checks that a text that ends turns only in other families is content. */
static void test_ends(void) {
    static const struct {
        const char *ends, *text, *events;
    } rows[] = {{"<|im_end|>", "a <s>b</s>", "|C:a <s>b</s>"},
                {"<|im_end|>", "a <s>b</s> c<|im_end|>", "|C:a <s>b</s> c"},
                {"</s>", "a <s>b</s>", "|C:a <s>b"},
                {"", "</s> a", "|C:</s> a"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t step = 1; step < 30; step++) {
            struct ask a = {.top = -1};
            struct heard h = {.last = EV_ADMITTED};
            struct buf problems = {0}, ends = {0};
            struct parser *s;
            const char *hit;
            const size_t n = strlen(rows[i].text);
            buf_str(&ends, rows[i].ends);
            CHECK_OK(
                parser_new(&s, &a, toolfmt_find("hermes-json"), TOOL_THINK_NONE, 0, hear, &h, &e));
            parser_ends(s, is_listed, ends.data);
            for (size_t at = 0; at < n; at += step)
                (void)parser_feed(s, rows[i].text + at, n - at < step ? n - at : step, &hit);
            (void)parser_end(s, false, &problems, &hit);
            CHECK_EQ_STR(h.all.data, rows[i].events);
            parser_free(s);
            buf_release(&h.all);
            buf_release(&ends);
            buf_release(&problems);
        }
}

/* ---- events to streams ---- */

/* Checks that an answer is recorded when it is complete and before it is sent to the client. */
static void not_told(struct task *t, const struct reply_choice *c) {
    static const char *const ends[] = {"\"finish_reason\":\"", "message_delta", "\"done\":true",
                                       "response.completed"};
    CHECK(c->end == END_CALLS && c->n_calls == 1 && c->call[0].done);
    for (size_t i = 0; i < COUNT_OF(ends) && t->out.data; i++)
        if (strstr(t->out.data, ends[i])) CHECK_FAIL("%s was sent: %s", ends[i], t->out.data);
}

/* Runs an answer of a family through an API; end: how it ends. */
static char *answer_of(const struct api *api, const char *body, const char *family,
                       const char *text, enum reply_end end) {
    struct ask a;
    struct fault f;
    const int32_t ids[] = {1, 2, 3};
    const struct ids prompt = {(int32_t *)(uintptr_t)ids, 3, 3};
    if (read_body(api, body, &a, &f)) CHECK_FAIL("%s", f.msg);
    struct task *t = task_new(NULL, api, &a, &prompt, 1);
    struct err ignored;
    const char *stop;
    snprintf(t->reply.id, sizeof t->reply.id, "ID");
    t->reply.model = "m";
    t->reply.fingerprint = "fp";
    t->fmt = toolfmt_find(family);
    t->ends = end == END_CALLS ? not_told : NULL;
    CHECK_OK(
        parser_new(&t->run[0].speak, &t->ask, t->fmt, TOOL_THINK_NONE, 0, task_event, t, &ignored));
    task_admit(t, 1);
    for (int64_t done = 2; done <= 3; done++) task_progress(&t->run[0], done);
    t->reply.choice[0].n_out = 9;
    (void)parser_feed(t->run[0].speak, text, strlen(text), &stop);
    (void)parser_end(t->run[0].speak, false, &t->reply.choice[0].problems, &stop);
    task_end_run(&t->run[0], end, NULL);
    char *out = buf_take(&t->out);
    task_free(t);
    return out;
}

/* Runs an answer with reasoning, content and a call through an API. */
static char *stream_of(const struct api *api, const char *body) {
    return answer_of(api, body, "hermes-json",
                     "<think>hm</think>Hello<tool_call>\n{\"name\": \"f\", \"arguments\": "
                     "{\"a\": 1}}\n</tool_call>",
                     END_CALLS);
}

/* Checks the order of a stream: the values of `member`, in order. */
static void order_is(const char *stream, const char *member, const char *want) {
    struct buf b = {0};
    for (const char *s = stream; (s = strstr(s, member));) {
        s += strlen(member);
        const size_t n = strcspn(s, "\"\n");
        buf_fmt(&b, "%s%.*s", b.len ? " " : "", (int)n, s);
    }
    CHECK_EQ_STR(b.data ? b.data : "", want);
    buf_release(&b);
}

#define OLDER ", \"functions\": [{\"name\": \"f\"}]"
#define TOOLS                                                                                      \
    ", \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}], \"stream\": true"

static void test_streams(void) {
    char *s = stream_of(&api_chat, CHAT(TOOLS ", \"stream_options\": {\"include_usage\": true}"));
    order_is(s, "\"reasoning_content\":\"", "hm");
    order_is(s, "\"content\":\"", "Hello"); /* the first is empty */
    order_is(s, "\"arguments\":\"", "{\\");
    order_is(s, "\"finish_reason\":\"", "tool_calls");
    order_is(
        s, "\"object\":\"",
        "chat.completion.chunk chat.completion.chunk chat.completion.chunk chat.completion.chunk "
        "chat.completion.chunk chat.completion.chunk chat.completion.chunk");
    CHECK(strstr(s, "\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":9,"
                    "\"total_tokens\":12,\"prompt_tokens_details\":{\"cached_tokens\":1}") != NULL);
    CHECK(strlen(s) > 14 && strcmp(s + strlen(s) - 14, "data: [DONE]\n\n") == 0);
    CHECK(!strstr(s, "prompt_progress"));
    order_is(s, "\"timings\":{\"", "cache_n cache_n"); /* in the choice, and next to the usage */
    CHECK(strstr(strstr(s, "\"choices\":[],\"usage\""), "\"timings\":{\"cache_n\"") != NULL);
    free(s);
    s = stream_of(&api_chat,
                  CHAT(TOOLS ", \"return_progress\": true, \"timings_per_token\": true"));
    order_is(s, "\"prompt_progress\":{\"", "total total");
    CHECK(strstr(s, "\"prompt_progress\":{\"total\":3,\"cache\":1,\"processed\":3,") != NULL);
    order_is(s, "\"timings\":{\"", /* in the two reports, reasoning, content, call, arguments */
             "cache_n cache_n cache_n cache_n cache_n cache_n cache_n");
    free(s);
    s = stream_of(&api_chat, CHAT(OLDER ", \"stream\": true"));
    order_is(s, "\"function_call\":{\"", "name arguments");
    order_is(s, "\"arguments\":\"", "{\\"); /* the first is empty */
    order_is(s, "\"finish_reason\":\"", "function_call");
    free(s);
    s = stream_of(&api_chat, CHAT(OLDER));
    CHECK(strstr(s, "\"function_call\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}") &&
          strstr(s, "\"finish_reason\":\"function_call\"") && !strstr(s, "tool_calls"));
    free(s);
    s = stream_of(&api_chat, CHAT(", \"functions\": [{\"name\": \"g\"}]"));
    CHECK(strstr(s, "\"problems\":[\"the tool 'f' was not declared\"]}") != NULL);
    free(s);
    s = stream_of(&api_chat, CHAT(OLDER ", \"logprobs\": true")); /* no content tokens */
    CHECK(strstr(s, "\"logprobs\":{\"content\": [], \"refusal\": null}") != NULL);
    free(s);
    s = stream_of(&api_messages,
                  MSG(", \"stream\": true, \"tools\": [{\"name\": \"f\", \"input_schema\": {}}]"));
    order_is(
        s, "event: ",
        "message_start ping content_block_start content_block_delta content_block_delta "
        "content_block_stop content_block_start content_block_delta content_block_stop "
        "content_block_start content_block_delta content_block_stop message_delta message_stop");
    order_is(s, "\"delta\":{\"type\":\"",
             "thinking_delta signature_delta text_delta input_json_delta");
    order_is(s, "\"stop_reason\":\"", "tool_use");
    CHECK(strstr(s, "\"usage\":{\"input_tokens\":2,\"cache_creation_input_tokens\":0,"
                    "\"cache_read_input_tokens\":1") != NULL);
    free(s);
    s = stream_of(&api_responses,
                  "{\"input\": \"x\", \"stream\": true, \"tools\": [{\"type\": \"function\", "
                  "\"name\": \"f\"}]}");
    order_is(s, "event: response.",
             "created in_progress output_item.added content_part.added reasoning_text.delta "
             "reasoning_text.done content_part.done output_item.done output_item.added "
             "content_part.added output_text.delta output_text.done content_part.done "
             "output_item.done output_item.added function_call_arguments.delta "
             "function_call_arguments.done output_item.done completed");
    order_is(s, "\"timings\":{\"", "cache_n"); /* in the last event */
    free(s);
    s = stream_of(&api_responses, "{\"input\": \"x\", \"stream\": true, \"return_progress\": true, "
                                  "\"timings_per_token\": true, \"tools\": [{\"type\": "
                                  "\"function\", \"name\": \"f\"}]}");
    order_is(s, "\"prompt_progress\":{\"", "total total");
    order_is(s, "\"timings\":{\"", "cache_n cache_n cache_n cache_n");
    free(s);
    s = stream_of(&api_ollama_chat, CHAT(TOOLS));
    order_is(s, "\"thinking\":\"", "hm");
    order_is(s, "\"content\":\"", "Hello  ");
    order_is(s, "\"done_reason\":\"", "stop");
    CHECK(strstr(s, "\"tool_calls\":[{\"id\":\"call_") && strstr(s, "\"arguments\":{\"a\": 1}"));
    free(s);
}

/* Checks that each reasoning item of an answer has only its own text, also in encrypted form. */
static void test_thoughts(void) {
    char *s = answer_of(
        &api_responses,
        "{\"input\": \"x\", \"stream\": true, \"include\": [\"reasoning.encrypted_content\"]}",
        "seed-xml", "<seed:think>aa</seed:think>Hello<seed:think>bb</seed:think>", END_TURN);
    /* each when it is done, and both in the whole answer */
    order_is(s, "\"encrypted_content\":\"", "hone1:YWE= hone1:CmJi hone1:YWE= hone1:CmJi");
    free(s);
}

/* Checks the log probabilities of text completions, also of a token that has a NUL. */
static void test_text_probs(void) {
    static const char elements[] =
        "{\"token\": \"a\\u0000\", \"logprob\": null, \"bytes\": [97, 0], \"top_logprobs\": []}, "
        "{\"token\": \"b\", \"logprob\": -0.5, \"bytes\": [98], \"top_logprobs\": [{\"token\": "
        "\"\\u0000\", \"logprob\": -2, \"bytes\": [0]}]}, "
        "{\"token\": \"\u00e9x\\ufffd\", \"logprob\": 0, \"bytes\": [195, 169, 120, 226]}, "
        "{\"token\": \"\\ufffd\", \"logprob\": 0, \"bytes\": [130, 172]}, "
        "{\"token\": \"z\", \"logprob\": 0, \"bytes\": [122]}";
    static const char want[] =
        "{\"logprobs\":{\"tokens\":[\"a\\u0000\",\"b\",\"\u00e9x\ufffd\",\"\ufffd\",\"z\"],"
        "\"token_logprobs\":[null,-0.5,0,0,0],\"top_logprobs\":[null,{\"\\u0000\":-2},null,null,"
        "null],\"text_offset\":[3,5,6,8,9]}}"; /* characters; the third ends within one */
    int64_t n = 3;
    struct buf b = {0};
    struct jw w;
    jw_init(&w, &b, false);
    jw_obj(&w, NULL);
    logprobs_as_text(&w, elements, &n);
    jw_end(&w);
    CHECK_EQ_STR(b.data, want);
    CHECK_EQ_I64(n, 10);
    buf_release(&b);
}

/* ---- conversations changed ---- */

/* Checks that a call restored in one message leaves the others as they are. */
static void test_restored(void) {
    static const char conv[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":"
        "null,\"tool_calls\":[{\"id\":\"call_1\",\"type\":\"function\",\"function\":{\"name\":"
        "\"f\","
        "\"arguments\":\"{%s}\"}}]},{\"role\":\"assistant\",\"content\":null}]}";
    struct reply_call call = {.id = "call_1"};
    const struct reply_choice c = {.call = &call, .n_calls = 1};
    struct history *h = history_new();
    struct buf sent = {0}, want = {0};
    buf_str(&call.args, "{\"a\": 1}");
    history_note(h, 7, &c);
    buf_fmt(&sent, conv, "\\\"a\\\":1");
    buf_fmt(&want, conv, "\\\"a\\\": 1");
    char *got = history_fill(h, 7, sent.data);
    CHECK(got != NULL);
    if (got) CHECK_EQ_STR(got, want.data);
    free(got);
    buf_release(&sent);
    buf_release(&want);
    buf_release(&call.args);
    history_free(h);
}

/* Checks the ids of calls for templates that print them as names: numbered through the
 * conversation; a result has its call's. */
static void test_numbers(void) {
    static const char *const rows[][2] = {
        {"[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"a\", \"function\": {\"name\": "
         "\"f\"}}, {\"id\": \"functions.g:1\", \"function\": {\"name\": \"g\"}}]}, {\"role\": "
         "\"tool\", \"tool_call_id\": \"functions.g:1\"}, {\"role\": \"tool\", \"tool_call_id\": "
         "\"a\"}, {\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"a\", \"function\": "
         "{\"name\": \"h\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"a\"}, {\"role\": "
         "\"tool\", \"tool_call_id\": \"b\"}]",
         "[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"functions.f:0\", \"function\": "
         "{\"name\": \"f\"}}, {\"id\": \"functions.g:1\", \"function\": {\"name\": \"g\"}}]}, "
         "{\"role\": \"tool\", \"tool_call_id\": \"functions.g:1\"}, {\"role\": \"tool\", "
         "\"tool_call_id\": \"functions.f:0\"}, {\"role\": \"assistant\", \"tool_calls\": "
         "[{\"id\": \"functions.h:2\", \"function\": {\"name\": \"h\"}}]}, {\"role\": \"tool\", "
         "\"tool_call_id\": \"functions.h:2\"}, {\"role\": \"tool\", \"tool_call_id\": \"b\"}]"},
        {"[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\"}}]}, "
         "{\"role\": \"tool\"}, {\"role\": \"tool\"}]",
         "[{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"functions.f:0\", \"function\": "
         "{\"name\": \"f\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"functions.f:0\"}, "
         "{\"role\": \"tool\"}]"},
        {"[{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"tool\", \"tool_call_id\": "
         "\"a\"}]",
         NULL}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct buf sent = {0}, want = {0};
        struct json *a = NULL, *b = NULL;
        const char *what;
        buf_fmt(&sent, "{\"messages\": %s}", rows[i][0]);
        char *got = conv_repair_conv(sent.data, MEND_NUMBERS, &what);
        CHECK((got != NULL) == (rows[i][1] != NULL));
        if (got && rows[i][1]) {
            buf_fmt(&want, "{\"messages\": %s}", rows[i][1]);
            CHECK_OK(json_parse(&a, got, strlen(got), "got", &e));
            CHECK_OK(json_parse(&b, want.data, want.len, "want", &e));
            if (!json_equal(a, b)) CHECK_FAIL("row %zu: %s", i, got);
        }
        json_free(a);
        json_free(b);
        free(got);
        buf_release(&sent);
        buf_release(&want);
    }
}

/* ---- calls as they are written ---- */

struct spoken {
    struct buf calls; /* name(arguments) of each */
    int n_pieces, n_open;
};
static void hear_calls(void *ud, const struct event *ev) {
    struct spoken *h = ud;
    if (ev->kind == EV_CALL_BEGIN) buf_fmt(&h->calls, "%.*s(", (int)ev->n, ev->s);
    if (ev->kind == EV_CALL_ARGS) buf_add(&h->calls, ev->s, ev->n);
    if (ev->kind == EV_CALL_END) buf_str(&h->calls, ")");
    h->n_pieces += ev->kind == EV_CALL_ARGS;
    h->n_open += ev->kind == EV_CALL_BEGIN ? 1 : ev->kind == EV_CALL_END ? -1 : 0;
}

static void speak_calls(const char *format, const char *text, size_t n, size_t step, bool stream,
                        struct spoken *h) {
    static const char tools[] =
        "[{\"type\": \"function\", \"function\": {\"name\": \"write\", \"parameters\": "
        "{\"properties\": "
        "{\"path\": {\"type\": \"string\"}, \"text\": {\"type\": \"string\"}, \"n\": {\"type\": "
        "\"integer\"}}}}}]";
    struct ask a = {.top = -1, .stream = stream, .tools = xstrdup(tools)};
    struct parser *s;
    struct buf problems = {0};
    const char *hit;
    CHECK_OK(parser_new(&s, &a, toolfmt_find(format), TOOL_THINK_NONE, 0, hear_calls, h, &e));
    for (size_t at = 0; at < n; at += step)
        (void)parser_feed(s, text + at, n - at < step ? n - at : step, &hit);
    (void)parser_end(s, n < strlen(text), &problems, &hit);
    parser_free(s);
    buf_release(&problems);
    ask_release(&a);
}

/* Checks that, however a text is split, a stream gives the calls of the whole text, in pieces; if a
 * limit ends it, the streamed part is a prefix of them. */
static void test_parts(void) {
    static const struct {
        const char *format, *text;
        int least; /* minimum number of pieces, if fed byte by byte */
    } rows[] = {
        {"qwen-xml",
         "Well.\n\n<tool_call>\n<function=write>\n<parameter=path>\na/\"b\".c\n</parameter>\n"
         "<parameter=text>\nif (a </param < b) {\n\n    \xc3\xa9\\n \"q\";\n</parameter> is "
         "text\n}\n"
         "</parameter>\n<parameter=n>\n12\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
         "<function=write>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>",
         20},
        {"minicpm-xml",
         "<function name=\"write\"><param name=\"path\">a.c</param><param name=\"text\">one two "
         "three"
         "</param></function>",
         8},
#define ARGS                                                                                       \
    "{\"path\":\"a\\u00e9/\\\"b\\/c\\ud83d\\ude00\", \"n\": 12 ,\n\"list\":[ 1.50,{\"x\": [ ] }, " \
    "true, -2e3 ],"                                                                                \
    "\"text\": \"one\\ntwo \xc3\xa9\", \"none\": null}"
        {"hermes-json",
         "<tool_call>\n{\"name\": \"write\", \"arguments\": " ARGS "}\n</tool_call>\n<tool_call>\n"
         "{\"name\": \"write\", \"arguments\": {\"path\": \"x\"}}\n</tool_call>",
         30},
        {"hermes-json", "<tool_call>{\"arguments\": " ARGS ", \"name\": \"write\"}</tool_call>", 1},
        {"llama-json", "{\"name\": \"write\", \"parameters\": " ARGS "}", 30},
        {"mistral-args",
         "[TOOL_CALLS]write[ARGS]" ARGS "[TOOL_CALLS]write[CALL_ID]123456789[ARGS]{\"n\": 1}", 30},
        {"mistral-array",
         "[TOOL_CALLS][{\"name\": \"write\", \"arguments\": " ARGS ", \"id\": \"123456789\"}, "
         "{\"name\": \"write\", \"arguments\": {}, \"id\": \"123456780\"}]</s>",
         30},
        {"kimi",
         "<|tool_calls_section_begin|><|tool_call_begin|>functions.write:0<|tool_call_argument_"
         "begin|>" ARGS "<|tool_call_end|><|tool_call_begin|>functions.write:1"
         "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
         30},
        {"harmony",
         "<|channel|>commentary to=functions.write <|constrain|>json<|message|>" ARGS "<|call|>",
         30},
        {"apertus-list", "<|tools_prefix|>[{\"write\": " ARGS "}, {\"write\": {}}]<|tools_suffix|>",
         30},
        {"nemotron-list",
         "<TOOLCALL>[{\"name\": \"write\", \"arguments\": " ARGS "},{\"name\": \"write\", "
         "\"arguments\": {}}]</TOOLCALL>",
         30},
        {"command-r-list",
         "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"write\", "
         "\"parameters\": " ARGS "}]<|END_ACTION|>",
         30},
        {"glm-argkv",
         "<tool_call>write\n<arg_key>path</arg_key>\n<arg_value>a/\"b\".c</arg_value>\n<arg_key>n"
         "</arg_key>\n<arg_value>12</arg_value>\n</tool_call>\n<tool_call>write\n</tool_call>",
         8},
        {"python-list",
         "<|tool_call_start|>[write(path='a', n=12), write(text='it\\'s', list=[1, {'k': None}])]"
         "<|tool_call_end|>",
         5},
        {"gemma4",
         "<|tool_call>call:write{path:<|\"|>a<|\"|>,n:12,list:[1,<|\"|>b<|\"|>]}<tool_call|>", 4},
        {"atem",
         " to=write<|message|><atem:function_calls>\n<atem:invoke name=\"write\">\n<atem:parameter "
         "name=\"path\">a/\"b\".c</atem:parameter>\n<atem:parameter "
         "name=\"n\">12</atem:parameter>\n"
         "</atem:invoke>\n</atem:function_calls><|eom|><|start|>assistant to=write<|message|>"
         "<atem:function_calls>\n<atem:invoke name=\"write\">\n</atem:invoke>\n"
         "</atem:function_calls><|eot|>",
         8},
#undef ARGS
/* duplicate members: the first ones count, and the members after them are kept */
#define TWICE                                                                                      \
    "{\"path\": \"a\", \"path\": {\"x\": [1, \"}\\\"\"], \"x\": 2, \"path\": 3}, \"n\": 1, "       \
    "\"p\\u0061th\": "                                                                             \
    "\"b\", \"list\": [{\"k\": 1, \"k\": 2}], \"n\": 2.50, \"text\": \"end of it\", \"text\": "    \
    "null}"
        {"hermes-json",
         "<tool_call>\n{\"name\": \"write\", \"arguments\": " TWICE "}\n</tool_call>", 10},
        {"llama-json", "{\"name\": \"write\", \"parameters\": " TWICE "}", 10},
        {"mistral-args", "[TOOL_CALLS]write[ARGS]" TWICE, 10},
        {"mistral-array", "[TOOL_CALLS][{\"name\": \"write\", \"arguments\": " TWICE "}]", 10},
        {"harmony",
         "<|channel|>commentary to=functions.write <|constrain|>json<|message|>" TWICE "<|call|>",
         10},
        {"qwen-xml",
         "<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=n>\n1\n"
         "</parameter>\n<parameter=path>\nbbbbbbbbb\n</parameter>\n<parameter=n>\n2\n</parameter>\n"
         "<parameter=text>\nend of it\n</parameter>\n</function>\n</tool_call>",
         5},
        {"glm-argkv",
         "<tool_call>write\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n<arg_key>path"
         "</arg_key>\n<arg_value>other</arg_value>\n<arg_key>text</arg_key>\n<arg_value>end of it"
         "</arg_value>\n</tool_call>",
         3},
        {"gemma4",
         "<|tool_call>call:write{path:<|\"|>a<|\"|>,path:<|\"|>b<|\"|>,n:12,n:3,text:"
         "<|\"|>end of it<|\"|>}<tool_call|>",
         2},
#undef TWICE
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const size_t n = strlen(rows[i].text);
        struct spoken whole = {.n_open = 0};
        speak_calls(rows[i].format, rows[i].text, n, n, false, &whole);
        CHECK(whole.calls.len > 0);
        if (strstr(rows[i].text, "end of it")) /* it follows duplicate members */
            CHECK(strstr(whole.calls.data, "\"text\": \"end of it\"}"));
        for (size_t step = 1; step < 24; step++) {
            struct spoken h = {.n_open = 0};
            speak_calls(rows[i].format, rows[i].text, n, step, true, &h);
            CHECK_EQ_STR(h.calls.data, whole.calls.data);
            CHECK(h.n_open == 0 && (step > 1 || h.n_pieces >= rows[i].least));
            buf_release(&h.calls);
        }
        for (size_t cut = 1; cut < n; cut++) {
            if (((unsigned char)rows[i].text[cut] & 0xc0) == 0x80) continue; /* half a character */
            struct spoken h = {.n_open = 0};
            speak_calls(rows[i].format, rows[i].text, cut, 1, true, &h);
            if (h.calls.len && strncmp(h.calls.data, whole.calls.data, h.calls.len) != 0)
                CHECK_FAIL("row %zu cut at %zu: %s", i, cut, h.calls.data);
            buf_release(&h.calls);
        }
        buf_release(&whole.calls);
    }
}

/* Checks that a call written as bare JSON is not streamed as content, unless calls are strict or
 * the answer has a different form. */
static void test_loose_calls(void) {
    static const char text[] = "```json\n{\"name\": \"write\", \"arguments\": {\"n\": 1}}\n```";
    static const char tools[] =
        "[{\"type\": \"function\", \"function\": {\"name\": \"write\", \"parameters\": "
        "{\"properties\": {\"n\": {\"type\": \"integer\"}}}}}]";
    for (int k = 0; k < 4; k++) {
        struct ask a = {.top = -1,
                        .stream = true,
                        .tools = xstrdup(tools),
                        .strict_calls = k == 1,
                        .form = k == 2 ? FORM_OBJECT : FORM_FREE,
                        .no_calls = k == 3};
        struct spoken h = {.n_open = 0};
        struct buf problems = {0};
        struct parser *s;
        const char *hit;
        CHECK_OK(parser_new(&s, &a, toolfmt_find("hermes-json"), TOOL_THINK_NONE, 0, hear_calls, &h,
                            &e));
        for (size_t i = 0; i < sizeof text - 1; i++) (void)parser_feed(s, text + i, 1, &hit);
        CHECK_EQ_I64(parser_end(s, false, &problems, &hit), k == 0);
        CHECK_EQ_I64(parser_loose(s), k == 0);
        CHECK(problems.len == 0);
        if (k == 0) CHECK(h.calls.len && strstr(h.calls.data, "write") != NULL);
        if (k == 0) CHECK(strstr(h.calls.data, "{\"n\": 1}") != NULL);
        parser_free(s);
        buf_release(&h.calls);
        buf_release(&problems);
        ask_release(&a);
    }
}

int main(void) {
    RUN(test_loose_calls);
    RUN(test_conversations);
    RUN(test_refused);
    RUN(test_marks);
    RUN(test_fields);
    RUN(test_switches);
    RUN(test_speak);
    RUN(test_no_tools);
    RUN(test_continued);
    RUN(test_tags);
    RUN(test_ends);
    RUN(test_parts);
    RUN(test_streams);
    RUN(test_thoughts);
    RUN(test_text_probs);
    RUN(test_restored);
    RUN(test_numbers);
    return check_done();
}
