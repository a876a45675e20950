// SPDX-License-Identifier: MIT
/* tests/unit/test_serve_shapes.c - requests as programs send them, from serve_shapes.txt: the
 * template's input, or the reason for a refusal. Also requests with thousands of calls. */
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "serve/history.h"
#include "tests/check.h"

static struct err e;
static const struct sample_opts usual = {.temp = 1, .top_p = 1, .repeat_penalty = 1};

static const struct {
    const char *name;
    const struct api *api;
} apis[] = {{"chat", &api_chat},
            {"messages", &api_messages},
            {"responses", &api_responses},
            {"ollama", &api_ollama_chat}};

static bool same_json(const char *a, const char *b) {
    struct json *x = NULL, *y = NULL;
    CHECK_OK(json_parse(&x, a, strlen(a), "conversation", &e));
    CHECK_OK(json_parse(&y, b, strlen(b), "expected", &e));
    const bool same = json_equal(x, y);
    json_free(x);
    json_free(y);
    return same;
}

static void check_answer(const char *what, const struct ask *a, int status, const struct fault *f,
                         const char *want) {
    static const char refused[] = "refused ", taken[] = "taken", begun[] = "begun ",
                      whole[] = "whole ";
    if (strncmp(want, refused, sizeof refused - 1) == 0) {
        const char *field = want + sizeof refused - 1, *words = strchr(field, ' ');
        const size_t n = (size_t)(words - field);
        if (status != 400 || strncmp(f->param, field, n) != 0 || f->param[n] ||
            !strstr(f->msg, words + 1))
            CHECK_FAIL("%s: status %d, '%s': %s", what, status, f->param, f->msg);
        return;
    }
    if (strncmp(want, begun, sizeof begun - 1) == 0) {
        want += sizeof begun - 1;
        if (!a->go_on) CHECK_FAIL("%s: another answer begins", what);
    } else if (strncmp(want, whole, sizeof whole - 1) == 0) {
        want += sizeof whole - 1;
        if (a->go_on) CHECK_FAIL("%s: the last message is continued", what);
    }
    if (strcmp(want, taken) == 0)
        want = "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}";
    if (status || !a->conv)
        CHECK_FAIL("%s: status %d: %s", what, status, f->msg);
    else if (!same_json(a->conv, want))
        CHECK_FAIL("%s: %s", what, a->conv);
}

/* Sends the body of a line "API BODY" and checks the answer. */
static void check_block(const char *what, char *line, const char *want) {
    char *body = strchr(line, ' ');
    const struct api *api = NULL;
    struct json *j = NULL;
    struct ask a;
    struct fault f = {0};
    CHECK(body != NULL);
    *body++ = 0;
    for (size_t i = 0; i < COUNT_OF(apis); i++)
        if (strcmp(line, apis[i].name) == 0) api = apis[i].api;
    CHECK(api != NULL);
    CHECK_OK(json_parse(&j, body, strlen(body), what, &e));
    ask_init(&a, &usual, -1, -1);
    const int status = api->read(&a, j, &f);
    check_answer(what, &a, status, &f, want);
    ask_release(&a);
    json_free(j);
}

static void test_shapes(void) {
    char *text = NULL, *next = NULL;
    size_t n = 0;
    int blocks = 0;
    CHECK_OK(io_read_file(&text, &n, "tests/unit/serve_shapes.txt", 1 << 20, &e));
    for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        if (strncmp(line, "## ", 3) != 0) continue;
        char *body = strtok_r(NULL, "\n", &next), *want = strtok_r(NULL, "\n", &next);
        CHECK(body && want);
        check_block(line + 3, body, want);
        blocks++;
    }
    CHECK(blocks >= 40);
    free(text);
}

/* Checks that the memory for calls keeps the last ones, finds them among thousands, and restores a
 * bounded amount even if all calls of a conversation have the same id. */
static void test_many_restored(void) {
    enum { N = 20000, KEPT = 8192, LONG = 200000 };
    struct reply_call call = {.done = true};
    struct reply_choice c = {.call = &call, .n_calls = 1};
    struct history *h = history_new();
    struct buf sent = {0};
    for (int i = 0; i < N; i++) {
        snprintf(call.id, sizeof call.id, "call_%d", i);
        buf_reset(&call.args);
        buf_fmt(&call.args, "{\"a\": %d}", i);
        history_note(h, 7, &c);
    }
    for (int i = 0; i < N; i += 127) {
        char want[40];
        buf_reset(&sent);
        buf_fmt(&sent,
                "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"call_%d\", "
                "\"function\": {\"name\": \"f\", \"arguments\": {\"a\":%d}}}]}]}",
                i, i);
        snprintf(want, sizeof want, "\"arguments\":{\"a\": %d}", i);
        char *got = history_fill(h, 7, sent.data);
        CHECK((got != NULL) == (i >= N - KEPT));
        if (got && !strstr(got, want)) CHECK_FAIL("call %d: %s", i, got);
        free(got);
    }
    for (int i = 0; i < LONG; i++) buf_chr(&c.reasoning, 'r');
    history_note(h, 7, &c);
    buf_reset(&sent);
    buf_str(&sent, "{\"messages\": [{\"role\": \"user\"}");
    for (int i = 0; i < 1000; i++)
        buf_fmt(&sent, ", {\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"%s\"}]}", call.id);
    buf_str(&sent, "]}");
    char *got = history_fill(h, 7, sent.data);
    CHECK(got && strlen(got) > LONG && strlen(got) < 64 << 20);
    free(got);
    buf_release(&sent);
    buf_release(&call.args);
    buf_release(&c.reasoning);
    history_free(h);
}

/* Checks that results get the names of their calls, and the order of the first ones is that of the
 * calls, in turns with thousands of calls. */
static void test_many_calls(void) {
    enum { N = 20000 };
    struct buf b = {0};
    struct json *j = NULL;
    struct ask a;
    struct fault f = {0};
    buf_str(&b, "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [");
    for (int i = 0; i < N; i++)
        buf_fmt(&b, "%s{\"id\": \"c%d\", \"function\": {\"name\": \"f%d\"}}", i ? ", " : "", i, i);
    buf_str(&b, "]}");
    for (int i = 0; i < N; i++)
        buf_fmt(&b, ", {\"role\": \"tool\", \"tool_call_id\": \"c%d\", \"content\": \"\"}", i ^ 1);
    buf_str(&b, "]}");
    CHECK_OK(json_parse(&j, b.data, b.len, "body", &e));
    ask_init(&a, &usual, -1, -1);
    CHECK_EQ_I64(api_chat.read(&a, j, &f), 0);
    const char *at = a.conv;
    for (int i = 0; i < N && at; i++) {
        char want[80];
        snprintf(want, sizeof want, "\"tool_call_id\":\"c%d\",\"name\":\"f%d\"", i, i);
        at = strstr(at, want);
        if (!at) CHECK_FAIL("result %d is missing or out of order", i);
    }
    json_free(j);
    ask_release(&a);
    buf_release(&b);
}

int main(void) {
    RUN(test_shapes);
    RUN(test_many_restored);
    RUN(test_many_calls);
    return check_done();
}
