// SPDX-License-Identifier: MIT
/* chat/talk.c - conversations as lists of JSON messages. */
#include "chat/talk.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

/* Releases all messages and sets their number to 0. */
static void free_messages(struct talk *t) {
    for (int i = 0; i < t->n; i++) {
        free(t->msg[i]);
        free(t->role[i]);
    }
    free(t->msg);
    free(t->role);
    t->msg = t->role = NULL;
    t->n = 0;
}

void talk_release(struct talk *t) {
    free_messages(t);
    free(t->extra);
    free(t->tools);
    memset(t, 0, sizeof *t);
}

/* ---- reading ---- */

/* Appends a message of len bytes that is already JSON. */
static void add_text(struct talk *t, const char *text, size_t len, const char *role) {
    t->msg = xreallocarray(t->msg, (size_t)t->n + 1, sizeof *t->msg);
    t->role = xreallocarray(t->role, (size_t)t->n + 1, sizeof *t->role);
    t->msg[t->n] = xstrndup(text, len);
    t->role[t->n++] = xstrdup(role);
}

/* Returns the value as JSON text; free it. */
static char *text_of(const struct json *j) {
    struct buf b = {0};
    json_write_spaced(&b, j);
    return buf_take(&b);
}

/* Appends the messages of a list; `what` names it in errors. */
static int read_messages(struct talk *t, const struct json *list, const char *what, struct err *e) {
    for (const struct json *m = json_first(list); m; m = json_next(m)) {
        const char *role = json_str(json_get(m, "role"));
        if (json_type(m) != JSON_OBJ)
            return err_set(e, ERR_DATA, "%s: message %d is not an object", what, t->n + 1);
        char *text = text_of(m);
        add_text(t, text, strlen(text), role ? role : "");
        free(text);
        t->n_calls += (int)json_len(json_get(m, "tool_calls"));
    }
    return 0;
}

/* Keeps the conversation's other members as JSON text for the template. */
static void read_extra(struct talk *t, const struct json *j) {
    struct buf extra = {0};
    for (const struct json *m = json_first(j); m; m = json_next(m)) {
        size_t n;
        const char *name = json_namen(m, &n);
        if (strcmp(name, "messages") == 0) continue;
        if (strcmp(name, "tools") == 0 && json_type(m) == JSON_ARR) t->tools = text_of(m);
        if (extra.len) buf_str(&extra, ", ");
        json_quote(&extra, name, n);
        buf_str(&extra, ": ");
        json_write_spaced(&extra, m);
    }
    if (extra.len) t->extra = buf_take(&extra);
}

int talk_parse(struct talk *t, const char *text, size_t len, const char *what, struct err *e) {
    struct talk new = {0};
    struct json *j;
    if (len > INT32_MAX)
        return err_set(e, ERR_DATA, "%s: a conversation of %zu bytes is too large", what, len);
    TRY(json_parse(&j, text, len, what, e));
    const struct json *list = json_type(j) == JSON_ARR ? j : json_get(j, "messages");
    int rc =
        json_type(list) != JSON_ARR
            ? err_set(
                  e, ERR_DATA,
                  "%s: not a conversation: must be an object with a list \"messages\", or a list "
                  "of messages",
                  what)
            : read_messages(&new, list, what, e);
    if (list != j) read_extra(&new, j);
    json_free(j);
    if (rc) {
        talk_release(&new);
        return rc;
    }
    talk_release(t);
    *t = new;
    return 0;
}

/* ---- writing ---- */

/* Returns whether message i has the role system or developer. */
static bool is_system(const struct talk *t, int i) {
    return strcmp(t->role[i], "system") == 0 || strcmp(t->role[i], "developer") == 0;
}

/* Returns the number of system and developer messages at the beginning. */
static int count_head(const struct talk *t) {
    int i = 0;
    while (i < t->n && is_system(t, i)) i++;
    return i;
}

void talk_write(const struct talk *t, int skip, struct buf *out) {
    const int head = count_head(t);
    bool any = false;
    buf_str(out, "{\"messages\": [");
    for (int i = 0; i < t->n; i++) {
        if (i >= head && i < head + skip) continue;
        buf_str(out, any ? ",\n  " : "\n  ");
        buf_str(out, t->msg[i]);
        any = true;
    }
    buf_str(out, any ? "\n]" : "]");
    if (t->extra) {
        buf_str(out, ",\n ");
        buf_str(out, t->extra);
    }
    buf_str(out, "}\n");
}

/* ---- appending ---- */

static void add_member(struct arena *a, struct json *obj, const char *name, const struct json *v) {
    json_put(a, obj, name, strlen(name), v);
}

static void put_text(struct arena *a, struct json *obj, const char *name, const char *s, size_t n) {
    add_member(a, obj, name, json_new_str(a, s, n));
}

static struct json *new_message(struct arena *a, const char *role, const char *content,
                                size_t len) {
    struct json *m = json_new(a, JSON_OBJ);
    put_text(a, m, "role", role, strlen(role));
    put_text(a, m, "content", content, len);
    return m;
}

/* Appends a message and releases its arena. */
static void add_made(struct talk *t, struct arena *a, const struct json *m, const char *role) {
    char *text = text_of(m);
    add_text(t, text, strlen(text), role);
    free(text);
    arena_release(a);
}

void talk_add(struct talk *t, const char *role, const char *content, size_t len) {
    struct arena a;
    arena_init(&a);
    add_made(t, &a, new_message(&a, role, content, len), role);
}

/* Returns a content part of the type, with n bytes of s as `member`. */
static struct json *new_part(struct arena *a, const char *type, const char *member, const char *s,
                             size_t n) {
    struct json *part = json_new(a, JSON_OBJ);
    put_text(a, part, "type", type, strlen(type));
    put_text(a, part, member, s, n);
    return part;
}

void talk_add_images(struct talk *t, const char *const *image, int n, const char *content,
                     size_t len) {
    struct arena a;
    arena_init(&a);
    struct json *m = json_new(&a, JSON_OBJ), *parts = json_new(&a, JSON_ARR);
    for (int i = 0; i < n; i++)
        json_push(&a, parts, new_part(&a, "image", "path", image[i], strlen(image[i])));
    if (len) json_push(&a, parts, new_part(&a, "text", "text", content, len));
    put_text(&a, m, "role", "user", 4);
    add_member(&a, m, "content", parts);
    add_made(t, &a, m, "user");
}

/* Copies a call and gives it an id of nine letters and digits, which is what the strictest
 * templates require. */
static struct json *numbered_call(struct arena *a, const struct json *call, int number) {
    struct json *c = json_new(a, JSON_OBJ), *f = json_new(a, JSON_OBJ);
    char id[16];
    snprintf(id, sizeof id, "call%05d", number % 100000);
    add_member(a, f, "name", json_get(call, "name"));
    add_member(a, f, "arguments", json_get(call, "arguments"));
    put_text(a, c, "id", id, strlen(id));
    put_text(a, c, "type", "function", 8);
    add_member(a, c, "function", f);
    return c;
}

void talk_add_answer(struct talk *t, const char *content, const char *reasoning,
                     const struct json *calls) {
    struct arena a;
    arena_init(&a);
    struct json *m = new_message(&a, "assistant", content, strlen(content));
    if (reasoning && *reasoning) put_text(&a, m, "reasoning_content", reasoning, strlen(reasoning));
    if (json_first(calls)) {
        struct json *list = json_new(&a, JSON_ARR);
        for (const struct json *c = json_first(calls); c; c = json_next(c))
            json_push(&a, list, numbered_call(&a, c, ++t->n_calls));
        add_member(&a, m, "tool_calls", list);
    }
    add_made(t, &a, m, "assistant");
}

/* Returns the index of the last answer, and sets *n_results to the number of results after it.
 * Returns -1 if other messages follow the answer. */
static int answer_of(const struct talk *t, int *n_results) {
    int i = t->n - 1;
    *n_results = 0;
    while (i >= 0 && strcmp(t->role[i], "tool") == 0) {
        i--;
        ++*n_results;
    }
    return i >= 0 && strcmp(t->role[i], "assistant") == 0 ? i : -1;
}

int talk_open_calls(const struct talk *t) {
    struct json *j;
    struct err e;
    int n_results, at = answer_of(t, &n_results);
    if (at < 0 || json_parse(&j, t->msg[at], strlen(t->msg[at]), "message", &e)) return 0;
    int64_t n = json_len(json_get(j, "tool_calls")) - n_results;
    json_free(j);
    return n > 0 ? (int)n : 0;
}

bool talk_add_result(struct talk *t, const char *text, size_t len) {
    struct json *j;
    struct err e;
    int n_results, at = answer_of(t, &n_results);
    if (at < 0 || json_parse(&j, t->msg[at], strlen(t->msg[at]), "message", &e)) return false;
    const struct json *c = json_first(json_get(j, "tool_calls"));
    for (int i = 0; i < n_results && c; i++) c = json_next(c);
    const bool found = c != NULL;
    if (found) {
        const struct json *f = json_get(c, "function");
        const char *id = json_str(json_get(c, "id")), *name = json_str(json_get(f ? f : c, "name"));
        struct arena a;
        arena_init(&a);
        struct json *m = new_message(&a, "tool", text, len);
        if (name) put_text(&a, m, "name", name, strlen(name));
        if (id) put_text(&a, m, "tool_call_id", id, strlen(id));
        add_made(t, &a, m, "tool");
    }
    json_free(j);
    return found;
}

void talk_drop_last(struct talk *t) {
    if (!t->n) return;
    free(t->msg[--t->n]);
    free(t->role[t->n]);
}

char *talk_take_last(struct talk *t) {
    if (!t->n) return NULL;
    free(t->role[--t->n]);
    return t->msg[t->n];
}

void talk_put_back(struct talk *t, const char *role, char *msg) {
    add_text(t, msg, strlen(msg), role);
    free(msg);
}

void talk_set_system(struct talk *t, const char *text) {
    struct talk new = {0};
    const int head = count_head(t);
    if (text) talk_add(&new, "system", text, strlen(text));
    for (int i = head; i < t->n; i++) add_text(&new, t->msg[i], strlen(t->msg[i]), t->role[i]);
    free_messages(t);
    t->msg = new.msg;
    t->role = new.role;
    t->n = new.n;
}

char *talk_content(const struct talk *t, int i) {
    struct json *j;
    struct err e;
    if (i < 0 || i >= t->n || json_parse(&j, t->msg[i], strlen(t->msg[i]), "message", &e))
        return NULL;
    const char *s = json_str(json_get(j, "content"));
    char *text = s ? xstrdup(s) : NULL;
    json_free(j);
    return text;
}

char *talk_system(const struct talk *t) {
    return count_head(t) ? talk_content(t, 0) : NULL;
}

void talk_clear(struct talk *t) {
    while (t->n > count_head(t)) talk_drop_last(t);
}

const char *talk_last_role(const struct talk *t) {
    return t->n ? t->role[t->n - 1] : "";
}

/* ---- fitting a context ---- */

int talk_skip(const struct talk *t, int skip) {
    const int head = count_head(t);
    for (int i = head + skip + 1; i < t->n; i++)
        if (strcmp(t->role[i], "user") == 0) return i - head;
    return -1;
}

int talk_fit(const struct talk *t, int64_t n_most, talk_count count, void *ud, int *skip,
             struct err *e) {
    for (;;) {
        int64_t n;
        TRY(count(ud, *skip, &n, e));
        if (n <= n_most) return 0;
        const int next = talk_skip(t, *skip);
        if (next < 0) return 0;
        *skip = next;
    }
}
