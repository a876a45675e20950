// SPDX-License-Identifier: MIT
/* tests/unit/tool_cuts.h - feeds an answer split at every position: the content, reasoning and
 * calls that a stream shows early must be prefixes of the final ones. */
#ifndef HONE_TESTS_TOOL_CUTS_H
#define HONE_TESTS_TOOL_CUTS_H

#include "chat/toolfmt.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/check.h"

#include <stdio.h>

static struct err e;
static const char *offered = ""; /* the tools */

/* Appends the calls that the stream has completed to done, and sets *open to the certain part of
 * the next one. */
static void take(struct toolparse *p, struct buf *done, struct buf *open) {
    struct buf name = {0}, args = {0};
    size_t n;
    bool whole = true;
    while (whole && toolparse_part(p, &name, &args, &n, &whole)) {
        buf_reset(open);
        buf_fmt(whole ? done : open, "%s%.*s%s", name.data, (int)n, args.data, whole ? "\n" : "");
    }
    buf_release(&name);
    buf_release(&args);
}

struct reading {
    struct buf json, content, thought, calls,
        open; /* the result, and the parts that a stream showed before the end */
};

static void release(struct reading *r) {
    buf_release(&r->json);
    buf_release(&r->content);
    buf_release(&r->thought);
    buf_release(&r->calls);
    buf_release(&r->open);
}

static const char *prompt = ""; /* text before the answers */

static struct reading read_in(const char *format, enum tool_think think, bool loose,
                              const char *text, size_t first, size_t step) {
    struct reading r = {.json = {0}};
    struct toolparse *p;
    const size_t n = strlen(text);
    size_t len;
    const struct toolfmt *f = format ? toolfmt_find(format) : toolfmt_plain();
    CHECK_OK(toolparse_new(&p, f, offered, strlen(offered), think, &e));
    if (toolfmt_opened(f, prompt)) toolparse_opened(p, toolfmt_opened(f, prompt));
    if (loose) toolparse_allow_loose(p);
    for (size_t at = 0; at < n;) {
        const size_t most = at ? step : first, k = n - at < most ? n - at : most;
        toolparse_feed(p, text + at, k);
        at += k;
        const char *s = toolparse_reasoning(p, &len);
        buf_reset(&r.thought);
        buf_add(&r.thought, s, len);
        s = toolparse_content(p, &len);
        buf_reset(&r.content);
        buf_add(&r.content, s, len);
        take(p, &r.calls, &r.open);
    }
    json_write_spaced(&r.json, toolparse_finish(p));
    toolparse_free(p);
    return r;
}

static void begins(const struct buf *shown, const char *whole, const char *text) {
    if (shown->len > strlen(whole) || (shown->len && memcmp(shown->data, whole, shown->len) != 0))
        CHECK_FAIL("%s: a stream showed '%s', in the end '%s'", text, shown->data, whole);
}

/* Checks that everything shown is a prefix of the final result. */
static void agree(struct reading *r, const char *want, const char *text) {
    struct json *j;
    struct buf calls = {0};
    CHECK_EQ_STR(r->json.data, want);
    CHECK_OK(json_parse(&j, r->json.data, r->json.len, "result", &e));
    for (const struct json *c = json_first(json_get(j, "tool_calls")); c; c = json_next(c)) {
        buf_str(&calls, json_str(json_get(c, "name")));
        json_write_spaced(&calls, json_get(c, "arguments"));
        buf_chr(&calls, '\n');
    }
    buf_str(&calls, "");
    begins(&r->content, json_str(json_get(j, "content")), text);
    begins(&r->thought, json_str(json_get(j, "reasoning")), text);
    begins(&r->calls, calls.data, text);
    const bool more = calls.len > r->calls.len; /* otherwise the open call was cut off */
    if (more) buf_add(&r->calls, r->open.data ? r->open.data : "", r->open.len);
    if (more) begins(&r->calls, calls.data, text);
    buf_release(&calls);
    json_free(j);
}

static void every_cut(const char *format, enum tool_think think, bool loose, const char *text,
                      const char *want) {
    for (size_t step = 1; step < 8; step++) {
        struct reading r = read_in(format, think, loose, text, step, step);
        agree(&r, want, text);
        release(&r);
    }
    for (size_t cut = 1; cut <= strlen(text); cut++) {
        struct reading r = read_in(format, think, loose, text, cut, strlen(text));
        agree(&r, want, text);
        release(&r);
    }
}

#endif
