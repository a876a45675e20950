// SPDX-License-Identifier: MIT
/* tests/unit/test_serve_shapes.c - requests as programs send them, from serve_shapes.txt: the
 * template's input, or the reason for a refusal. */
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "serve/reply.h"
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

int main(void) {
    RUN(test_shapes);
    return check_done();
}
