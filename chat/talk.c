// SPDX-License-Identifier: MIT
/* chat/talk.c - conversations (talk.h). What is read was parsed once by core/json, so that the cuts
 * made here, at commas and brackets of the outermost levels, are right. */
#include "chat/talk.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/mem.h"

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

/* These texts end with a NUL. */
static const char *ws(const char *s) {
    return json_skip_ws(s, NULL);
}
static const char *past(const char *s) {
    return json_skip_value(s, NULL);
}

static void add_text(struct talk *t, const char *text, size_t len, const char *role) {
    t->msg = xreallocarray(t->msg, (size_t)t->n + 1, sizeof *t->msg);
    t->role = xreallocarray(t->role, (size_t)t->n + 1, sizeof *t->role);
    t->msg[t->n] = xstrndup(text, len);
    t->role[t->n++] = xstrdup(role);
}

/* list: the text of the array, j: the same parsed. */
static int read_messages(struct talk *t, const char *list, const struct json *j, const char *what,
                         struct err *e) {
    const struct json *m = json_first(j);
    for (const char *s = ws(list) + 1; m; m = json_next(m)) {
        s = ws(s);
        const char *end = past(s), *role = json_str(json_get(m, "role"));
        if (json_type(m) != JSON_OBJ)
            return err_set(e, ERR_DATA, "%s: message %d is not an object", what, t->n + 1);
        add_text(t, s, (size_t)(end - s), role ? role : "");
        for (const struct json *c = json_first(json_get(m, "tool_calls")); c; c = json_next(c))
            t->n_calls++;
        s = ws(end);
        if (*s == ',') s++;
    }
    return 0;
}

static int read_object(struct talk *t, const char *text, const struct json *j, const char *what,
                       struct err *e) {
    struct buf extra = {0};
    const char *s = ws(text) + 1;
    int rc = 0;
    for (const struct json *m = json_first(j); m && !rc; m = json_next(m)) {
        s = ws(s);
        const char *name_end = past(s), *value = ws(ws(name_end) + 1);
        const char *end = past(value);
        if (strcmp(json_name(m), "messages") == 0) {
            rc = read_messages(t, value, m, what, e);
        } else {
            buf_fmt(&extra, "%s%.*s:%.*s", extra.len ? "," : "", (int)(name_end - s), s,
                    (int)(end - value), value);
            if (strcmp(json_name(m), "tools") == 0 && json_type(m) == JSON_ARR)
                t->tools = xstrndup(value, (size_t)(end - value));
        }
        s = ws(end);
        if (*s == ',') s++;
    }
    t->extra = extra.len ? buf_take(&extra) : NULL;
    buf_release(&extra);
    return rc;
}

int talk_parse(struct talk *t, const char *text, size_t len, const char *what, struct err *e) {
    struct talk new = {0};
    struct json *j;
    if (len > INT32_MAX)
        return err_set(e, ERR_DATA, "%s: %zu bytes are too many for a conversation", what, len);
    TRY(json_parse(&j, text, len, what, e));
    char *copy = xstrndup(text, len);
    const struct json *list = json_type(j) == JSON_ARR ? j : json_get(j, "messages");
    int rc = json_type(list) != JSON_ARR
                 ? err_set(e, ERR_DATA,
                           "%s: this is no conversation: a list \"messages\" is needed, or a list "
                           "of messages",
                           what)
             : list == j ? read_messages(&new, copy, j, what, e)
                         : read_object(&new, copy, j, what, e);
    free(copy);
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

static bool is_system(const struct talk *t, int i) {
    return strcmp(t->role[i], "system") == 0 || strcmp(t->role[i], "developer") == 0;
}

static int n_head(const struct talk *t) {
    int i = 0;
    while (i < t->n && is_system(t, i)) i++;
    return i;
}

void talk_write(const struct talk *t, int skip, struct buf *out) {
    const int head = n_head(t);
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

/* ---- growing ---- */

static void add_built(struct talk *t, struct buf *b, const char *role) {
    add_text(t, b->data, b->len, role);
    buf_release(b);
}

static void begin(struct buf *b, const char *role, const char *content, size_t len) {
    buf_str(b, "{\"role\": ");
    json_quote(b, role, strlen(role));
    buf_str(b, ", \"content\": ");
    json_quote(b, content, len);
}

void talk_add(struct talk *t, const char *role, const char *content, size_t len) {
    struct buf b = {0};
    begin(&b, role, content, len);
    buf_chr(&b, '}');
    add_built(t, &b, role);
}

/* Nine letters and digits: what the strictest templates take. */
static void call_id(char out[16], int n) {
    snprintf(out, 16, "call%05d", n % 100000);
}

const char *talk_member(const char *s, const struct json *j, const char *name, size_t *len) {
    s = ws(s) + 1;
    for (const struct json *m = json_first(j); m; m = json_next(m)) {
        const char *value = ws(ws(past(ws(s))) + 1), *end = past(value);
        if (strcmp(json_name(m), name) == 0) {
            *len = (size_t)(end - value);
            return value;
        }
        s = ws(end);
        if (*s == ',') s++;
    }
    *len = 0;
    return NULL;
}

static int add_calls(struct talk *t, struct buf *b, const char *calls, struct err *e) {
    struct json *list;
    TRY(json_parse(&list, calls, strlen(calls), "tool calls", e));
    const char *s = ws(calls) + 1;
    bool any = false;
    for (const struct json *c = json_first(list); c; c = json_next(c)) {
        char id[16];
        size_t n_name, n_args;
        s = ws(s);
        const char *name = talk_member(s, c, "name", &n_name),
                   *args = talk_member(s, c, "arguments", &n_args);
        call_id(id, ++t->n_calls);
        buf_fmt(b,
                "%s{\"id\": \"%s\", \"type\": \"function\", \"function\": {\"name\": %.*s, "
                "\"arguments\": ",
                any ? ", " : ", \"tool_calls\": [", id, name ? (int)n_name : 2,
                name ? name : "\"\"");
        buf_add(b, args ? args : "{}", args ? n_args : 2);
        buf_str(b, "}}");
        any = true;
        s = ws(past(s));
        if (*s == ',') s++;
    }
    if (any) buf_chr(b, ']');
    json_free(list);
    return 0;
}

int talk_add_answer(struct talk *t, const char *content, const char *reasoning, const char *calls,
                    struct err *e) {
    struct buf b = {0};
    begin(&b, "assistant", content, strlen(content));
    if (reasoning && *reasoning) {
        buf_str(&b, ", \"reasoning_content\": ");
        json_quote(&b, reasoning, strlen(reasoning));
    }
    int rc = calls ? add_calls(t, &b, calls, e) : 0;
    if (rc) {
        buf_release(&b);
        return rc;
    }
    buf_chr(&b, '}');
    add_built(t, &b, "assistant");
    return 0;
}

/* The last answer when nothing but results follows it, or -1; *n_results: how many. */
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
    struct buf b = {0};
    int n_results, at = answer_of(t, &n_results);
    if (at < 0 || json_parse(&j, t->msg[at], strlen(t->msg[at]), "message", &e)) return false;
    const struct json *c = json_first(json_get(j, "tool_calls"));
    for (int i = 0; i < n_results && c; i++) c = json_next(c);
    const bool found = c != NULL;
    if (found) {
        const struct json *f = json_get(c, "function");
        const char *id = json_str(json_get(c, "id")), *name = json_str(json_get(f ? f : c, "name"));
        begin(&b, "tool", text, len);
        if (name) {
            buf_str(&b, ", \"name\": ");
            json_quote(&b, name, strlen(name));
        }
        if (id) {
            buf_str(&b, ", \"tool_call_id\": ");
            json_quote(&b, id, strlen(id));
        }
        buf_chr(&b, '}');
        add_built(t, &b, "tool");
    }
    json_free(j);
    return found;
}

void talk_drop_last(struct talk *t) {
    if (!t->n) return;
    free(t->msg[--t->n]);
    free(t->role[t->n]);
}

void talk_set_system(struct talk *t, const char *text) {
    struct talk new = {0};
    const int head = n_head(t);
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
    return n_head(t) ? talk_content(t, 0) : NULL;
}

void talk_clear(struct talk *t) {
    while (t->n > n_head(t)) talk_drop_last(t);
}

const char *talk_last_role(const struct talk *t) {
    return t->n ? t->role[t->n - 1] : "";
}

/* ---- what fits ---- */

int talk_skip(const struct talk *t, int skip) {
    const int head = n_head(t);
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
