// SPDX-License-Identifier: MIT
/* serve/record_dedup.c - filter that drops recorded requests which a later one continues. It
 * compares only roles, content and calls. Call ids, reasoning and the spelling of arguments are
 * ignored, since clients drop or change them. */
#include "serve/record_dedup.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"

enum { MOST_BYTES = 64 << 20 };

struct waiting {
    char *line;
    size_t n_bytes;
    uint64_t *said; /* hash of each message */
    int64_t n_said;
    double since;
    struct waiting *next; /* next in order of arrival */
};
struct record_dedup {
    double seconds;
    void (*write)(void *ud, const char *line);
    void *ud;
    struct waiting *first;
    size_t n_bytes;
};

struct record_dedup *record_dedup_new(double seconds, void (*write)(void *ud, const char *line),
                                      void *ud) {
    struct record_dedup *l = xcalloc(1, sizeof *l);
    *l = (struct record_dedup){.seconds = seconds, .write = write, .ud = ud};
    return l;
}

/* Appends a call's name and the value of its arguments, which may be JSON text. */
static void add_call(struct buf *b, const struct json *call) {
    const struct json *fn = json_get(call, "function"), *args = json_get(fn, "arguments");
    struct json *parsed = NULL;
    struct err ignored;
    const char *text = json_str(args);
    if (text && json_parse_mend(&parsed, text, strlen(text), "arguments", &ignored) == 0)
        args = parsed;
    json_write(b, json_get(fn, "name"));
    json_write(b, args);
    json_free(parsed);
}

/* Returns a hash of role, content and calls. */
static uint64_t hash_message(const struct json *m) {
    struct buf b = {0};
    json_write(&b, json_get(m, "role"));
    json_write(&b, json_get(m, "content"));
    for (const struct json *c = json_first(json_get(m, "tool_calls")); c; c = json_next(c))
        add_call(&b, c);
    const uint64_t h = hash_u64(b.data, b.len);
    buf_release(&b);
    return h;
}

/* Returns whether the messages of a are a prefix of b's. */
static bool begins(const struct waiting *a, const struct waiting *b) {
    return a->n_said > 0 && a->n_said < b->n_said &&
           memcmp(a->said, b->said, (size_t)a->n_said * sizeof *a->said) == 0;
}

/* Removes the line that *at points to. */
static void drop(struct record_dedup *l, struct waiting **at) {
    struct waiting *w = *at;
    *at = w->next;
    l->n_bytes -= w->n_bytes;
    free(w->line);
    free(w->said);
    free(w);
}

/* Writes the oldest waiting line and removes it. */
static void hand_on_first(struct record_dedup *l) {
    l->write(l->ud, l->first->line);
    drop(l, &l->first);
}

void record_dedup_add(struct record_dedup *l, const char *line, double now) {
    struct json *j = NULL;
    struct err ignored;
    struct waiting *w = xcalloc(1, sizeof *w), **at = &l->first;
    w->line = xstrdup(line);
    w->since = now;
    if (json_parse_mend(&j, line, strlen(line), "record", &ignored) == 0) {
        const struct json *list = json_get(j, "messages");
        w->said = xcalloc((size_t)json_len(list) + 1, sizeof *w->said);
        for (const struct json *m = json_first(list); m; m = json_next(m))
            w->said[w->n_said++] = hash_message(m);
    }
    json_free(j);
    w->n_bytes = strlen(line) + (size_t)w->n_said * sizeof *w->said;
    while (*at)
        if (begins(*at, w))
            drop(l, at);
        else
            at = &(*at)->next;
    *at = w;
    l->n_bytes += w->n_bytes;
    while (l->first && (now - l->first->since > l->seconds || l->n_bytes > MOST_BYTES))
        hand_on_first(l);
}

void record_dedup_free(struct record_dedup *l) {
    if (!l) return;
    while (l->first) hand_on_first(l);
    free(l);
}
