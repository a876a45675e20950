// SPDX-License-Identifier: MIT
/* tests/unit/test_tool_texts.c - parses the answers of tests/published/calls*.py, in all syntaxes,
 * whole and split at every position, and compares with the results recorded there. */
#include "base/io.h"
#include "tests/unit/tool_cuts.h"

#define TEXTS "tests/golden/templates/calls.jsonl"

static const char *str(const struct json *j, const char *name) {
    const char *s = json_str(json_get(j, name));
    return s ? s : "";
}

static enum tool_think think_of(const struct json *j) {
    const char *s = str(j, "think");
    return strcmp(s, "open") == 0   ? TOOL_THINK_OPEN
           : strcmp(s, "auto") == 0 ? TOOL_THINK_UNKNOWN
                                    : TOOL_THINK_NONE;
}

/* Fails unless the parsed answer is the recorded one. */
static void check_reading(const struct json *want, const struct json *got, const char *text) {
    int64_t loose = 0, want_loose = 0;
    bool same = json_equal(json_get(got, "tool_calls"), json_get(want, "tool_calls"));
    same = same && strcmp(str(got, "content"), str(want, "content")) == 0;
    same = same && strcmp(str(got, "reasoning"), str(want, "reasoning")) == 0;
    const bool problems = json_len(json_get(got, "problems")) > 0;
    (void)json_i64(json_get(got, "loose"), &loose);
    (void)json_i64(json_get(want, "loose"), &want_loose);
    if (!same || problems != json_bool(json_get(want, "problems"), false) || loose != want_loose)
        CHECK_FAIL("%s: %s: %s", str(want, "format"), str(want, "name"), text);
}

static void check_line(const struct json *want) {
    const char *format = str(want, "format"), *text = str(want, "text");
    const bool loose = !json_bool(json_get(want, "strict"), false);
    const enum tool_think think = think_of(want);
    struct json *got = NULL;
    struct reading r = read_in(format, think, loose, text, strlen(text), 1);
    CHECK_OK(json_parse(&got, r.json.data, r.json.len, "reading", &e));
    check_reading(want, got, r.json.data);
    every_cut(format, think, loose, text, r.json.data);
    json_free(got);
    release(&r);
}

static void test_texts(void) {
    char *all, *end;
    size_t len;
    int n = 0;
    struct json *tools = NULL;
    struct buf list = {0};
    CHECK_OK(io_read_file(&all, &len, TEXTS, 1 << 24, &e));
    for (char *line = all; *line; line = end + 1, n++) {
        struct json *j = NULL;
        end = strchr(line, '\n');
        *end = 0;
        CHECK_OK(json_parse(&j, line, strlen(line), TEXTS, &e));
        if (!n) {
            tools = j;
            json_write(&list, j);
            offered = list.data;
            continue;
        }
        check_line(j);
        json_free(j);
    }
    CHECK(n > 250);
    json_free(tools);
    buf_release(&list);
    free(all);
}

int main(void) {
    RUN(test_texts);
    return check_done();
}
