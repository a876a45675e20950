// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_toolcall.c - tool calls in model output, in every syntax. The first byte selects
 * the syntax, the second whether the prompt opened reasoning and whether bare JSON may be a call.
 * The result must not depend on how the text is split, and content and calls that were once shown
 * must not change until the end. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "base/json.h"
#include "chat/toolfmt.h"

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"properties\":{\"n\":{"
    "\"type\":\"integer\"},\"s\":{\"type\":\"string\"},\"u\":{\"anyOf\":[{\"type\":\"string\"},{"
    "\"type\":\"null\"}]},\"o\":{\"type\":[\"object\",\"array\"]}}}}}]";

/* Checks that incomplete calls have the JSON text of an object at any time. Writes the complete
 * ones to `given`. */
static void check_parts(struct toolparse *p, struct buf *given) {
    struct buf name = {0}, args = {0};
    struct json *v;
    struct err e;
    size_t n;
    bool done = true;
    while (done && toolparse_part(p, &name, &args, &n, &done)) {
        if (n > args.len || json_parse(&v, args.data, args.len, "parts", &e)) abort();
        if (json_type(v) != JSON_OBJ) abort();
        json_free(v);
        if (done) buf_fmt(given, "%s%s\n", name.data ? name.data : "", args.data);
    }
    buf_release(&name);
    buf_release(&args);
}

/* Checks that the calls completed earlier are the first of the final calls. */
static void check_given(const struct json *result, const struct buf *given) {
    struct buf all = {0};
    for (const struct json *c = json_first(json_get(result, "tool_calls")); c; c = json_next(c)) {
        buf_str(&all, json_str(json_get(c, "name")));
        json_write_spaced(&all, json_get(c, "arguments"));
        buf_chr(&all, '\n');
    }
    if (given->len > all.len) abort();
    if (given->len && memcmp(all.data, given->data, given->len) != 0) abort();
    buf_release(&all);
}

/* Checks that text shown while streaming is a prefix of the final content. */
static void check_shown(const struct json *result, const struct buf *shown) {
    size_t n;
    const char *c = json_strn(json_get(result, "content"), &n);
    if (!c || n < shown->len || (shown->len && memcmp(c, shown->data, shown->len) != 0)) abort();
}

static struct buf parse(const struct toolfmt *f, enum tool_think think, bool loose, const char *s,
                        size_t n, size_t piece) {
    struct toolparse *p;
    struct err e;
    struct buf out = {0}, shown = {0}, given = {0};
    if (toolparse_new(&p, f, tools, sizeof tools - 1, think, &e)) abort();
    if (loose) toolparse_allow_loose(p);
    for (size_t at = 0; at < n; at += piece) {
        size_t len;
        toolparse_feed(p, s + at, n - at < piece ? n - at : piece);
        const char *c = toolparse_content(p, &len);
        if (len < shown.len || memcmp(c, shown.data ? shown.data : "", shown.len) != 0) abort();
        buf_reset(&shown);
        buf_add(&shown, c, len);
        check_parts(p, &given);
    }
    const struct json *result = toolparse_finish(p);
    json_write(&out, result);
    check_shown(result, &shown);
    check_given(result, &given);
    buf_release(&given);
    toolparse_free(p);
    buf_release(&shown);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2 || size > 20000) return 0;
    const struct toolfmt *f = toolfmt_at(data[0] % toolfmt_count());
    enum tool_think think = (enum tool_think)(data[1] % 3);
    const bool loose = data[1] & 4;
    const char *s = (const char *)data + 2;
    struct buf whole = parse(f, think, loose, s, size - 2, size), bytes = {0};
    if (size < 2000) {
        bytes = parse(f, think, loose, s, size - 2, 1);
        if (bytes.len != whole.len || (whole.len && memcmp(bytes.data, whole.data, whole.len) != 0))
            abort();
    }
    buf_release(&whole);
    buf_release(&bytes);
    return 0;
}
