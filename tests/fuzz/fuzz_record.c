// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_record.c - lines of --record as read by `hone eval traffic`, and the two stores
 * that process conversations. A replayed request must be one that a client could have sent. If
 * lines continue each other, only the last is passed on (serve/record_dedup.c), once and in order.
 * A conversation restored from history (serve/history.c) must have all of its messages. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "serve/record_dedup.h"
#include "serve/history.h"
#include "serve/record.h"
#include "tests/fuzz/fuzz.h"

enum { LINES = 64 };
struct lines {
    char *v[LINES];
    int n, out; /* out: the first one that may still be passed on */
};

static void handed_on(void *ud, const char *line) {
    struct lines *l = ud;
    while (l->out < l->n && strcmp(l->v[l->out], line) != 0) l->out++;
    if (l->out++ >= l->n) abort(); /* it was passed on twice or too early, or never existed */
}

/* Remembers the calls in the line's answer, under the ids in its messages. */
static void note_calls(struct history *r, const struct json *line) {
    struct reply_choice c = {.end = END_TURN};
    struct reply_call call[4];
    memset(call, 0, sizeof call);
    c.call = call;
    buf_str(&c.reasoning, "because");
    for (const struct json *m = json_first(json_get(line, "messages")); m; m = json_next(m))
        for (const struct json *k = json_first(json_get(m, "tool_calls")); k && c.n_calls < 4;
             k = json_next(k)) {
            const char *id = json_str(json_get(k, "id"));
            if (!id || strlen(id) >= sizeof call->id) continue;
            const struct json *args = json_get(json_get(k, "function"), "arguments");
            snprintf(call[c.n_calls].id, sizeof call->id, "%s", id);
            if (json_type(args) == JSON_OBJ)
                json_write_spaced(&call[c.n_calls++].args, args);
            else
                buf_str(&call[c.n_calls++].args, "{\"a\": 1.0}");
        }
    history_note(r, 1, &c);
    for (int i = 0; i < c.n_calls; i++) buf_release(&call[i].args);
    buf_release(&c.reasoning);
}

static struct json *parsed(const char *text) {
    struct json *j = NULL;
    struct err e;
    if (json_parse(&j, text, strlen(text), "text", &e)) abort();
    return j;
}

static void restore(const struct json *line, const char *conv) {
    static struct history *r;
    if (!r) r = history_new();
    note_calls(r, line);
    char *filled = history_fill(r, 1, conv);
    if (!filled) return;
    struct json *was = parsed(conv), *is = parsed(filled);
    const struct json *a = json_first(json_get(was, "messages")),
                      *b = json_first(json_get(is, "messages"));
    for (; a && b; a = json_next(a), b = json_next(b)) {
        if (!json_equal(json_get(a, "content"), json_get(b, "content"))) abort();
        if (json_len(json_get(a, "tool_calls")) != json_len(json_get(b, "tool_calls"))) abort();
    }
    if (a || b) abort();
    char *again = history_fill(r, 1, filled); /* nothing is missing now */
    if (again && strcmp(again, filled) != 0) abort();
    free(again);
    json_free(was);
    json_free(is);
    free(filled);
}

static void ask_again(const struct json *line, bool greedy) {
    static const struct sample_opts usual = {.temp = 1};
    struct ask a;
    struct err e = {0};
    ask_init(&a, &usual, -1, -1);
    const int rc = record_ask(&a, line, greedy, &e);
    if (rc ? !e.msg[0] : !a.conv && !a.n_prompts) abort();
    if (!rc && greedy && a.sample.temp > 0) abort();
    if (!rc && a.conv) {
        json_free(parsed(a.conv));
        restore(line, a.conv);
    }
    ask_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct lines l = {.n = 0};
    struct record_dedup *w = record_dedup_new(5, handed_on, &l);
    if (size > 1 << 16) size = 1 << 16;
    for (size_t at = 0; at < size && l.n < LINES; l.n++) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        const size_t n = end ? (size_t)(end - data) - at : size - at;
        struct json *j = NULL;
        struct err e;
        l.v[l.n] = xstrndup((const char *)data + at, n);
        at += n + 1;
        if (json_parse(&j, l.v[l.n], strlen(l.v[l.n]), "line", &e) == 0 && json_type(j) == JSON_OBJ)
            ask_again(j, l.n % 2);
        json_free(j);
    }
    const int n = l.n;
    for (int i = 0; i < n; i++) {
        l.n = i + 1;
        record_dedup_add(w, l.v[i], (double)i);
    }
    record_dedup_free(w);
    for (int i = 0; i < n; i++) free(l.v[i]);
    return 0;
}
