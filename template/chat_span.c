// SPDX-License-Identifier: MIT
/* template/chat_span.c - origins for the inputs of a conversation (tracked by jinja_span.c), and
 * detection of forged markers in them. */
#include "template/chat_span.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- naming inputs --------------------------------------------------------------------------- */

static const char *const contents[] = {"system", "developer", "user", "assistant", "tool"};

/* Returns the kind of a message's content: its role if known, otherwise "message". */
static const char *kind_of_content(struct jval message) {
    struct jval role = chat_member(message, "role");
    for (size_t i = 0; i < COUNT_OF(contents); i++)
        if (jv_is(role, contents[i])) return contents[i];
    return "message";
}

/* Returns the kind of member `key` in a value of kind `kind`. */
static const char *kind_below(const char *kind, struct jval message, struct jval key) {
    static const struct {
        const char *above, *key, *kind;
    } rules[] = {
        {"message", "role", "role"},
        {"message", "tool_calls", "call"},
        {"message", "reasoning_content", "reasoning"},
        {"message", "reasoning", "reasoning"},
        {"message", "thinking", "reasoning"},
        {"call", "arguments", "arguments"},
        {"variable", "tools", "tools"},
        {"variable", "documents", "documents"},
        {"variable", "messages", "message"},
    };
    if (strcmp(kind, "message") == 0 && jv_is(key, "content")) return kind_of_content(message);
    for (size_t i = 0; i < COUNT_OF(rules); i++)
        if (strcmp(kind, rules[i].above) == 0 && jv_is(key, rules[i].key)) return rules[i].kind;
    return kind;
}

/* Returns path + sep + key + end, with the key truncated to 200 bytes. */
static struct jval path_text(struct jctx *c, struct jval path, const char *sep, struct jval key,
                             const char *end) {
    enum { MAX_KEY = 200 };
    size_t m = jx_mark(c);
    jx_add(c, path.u.s, path.len);
    if (path.len || *sep != '.') jx_add(c, sep, strlen(sep));
    jx_add(c, key.u.s, key.len > MAX_KEY ? MAX_KEY : key.len);
    jx_add(c, end, strlen(end));
    return jx_take(c, m);
}

/* Returns a copy of the dict v with labeled strings. path: its place in the variables. */
static struct jval named_dict(struct jctx *c, struct jval v, struct jval path, const char *kind) {
    struct jval d = jv_dict(c, v.u.dict->n);
    uint16_t names = 0;
    for (uint32_t i = 0; i < v.u.dict->n; i++) {
        struct jval key = v.u.dict->e[i].k, x = v.u.dict->e[i].v;
        if (path.len && key.tag == JT_STR) { /* The program chose the names of variables. */
            if (!names) names = jspan_origin(c, path_text(c, path, ".", jv_str("*"), ""), kind);
            key = jspan_mark(c, key, names);
        }
        struct jval below = path_text(c, path, ".", jv_to_str(c, v.u.dict->e[i].k), "");
        jdict_set(c, d.u.dict, key, chat_named(c, x, below, kind_below(kind, v, key)));
    }
    return d;
}

struct jval chat_named(struct jctx *c, struct jval v, struct jval path, const char *kind) {
    jx_step(c);
    if (++c->nest > 2000) jx_fail(c, "RecursionError", "the input is too deeply nested");
    if (v.tag == JT_DICT) {
        v = named_dict(c, v, path, kind);
    } else if (v.tag == JT_LIST) {
        struct jval l = jv_list(c, v.u.list->n);
        for (uint32_t i = 0; i < v.u.list->n; i++) {
            struct jval below = path_text(c, path, "[", jv_to_str(c, jv_int(i)), "]");
            jlist_add(c, l.u.list, chat_named(c, v.u.list->v[i], below, kind));
        }
        v = l;
    } else if (v.tag == JT_STR || v.tag == JT_NONE || jv_is_num(v)) {
        v = jspan_mark(c, v, jspan_origin(c, path, kind));
    }
    c->nest--;
    return v;
}

struct jval chat_name_vars(struct jctx *c, struct jval vars) {
    static const char *const own[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                      "add_generation_prompt"};
    struct jval all = chat_named(c, vars, jv_str(""), "variable");
    for (size_t i = 0; i < COUNT_OF(own); i++) {
        struct jval v = chat_member(vars, own[i]);
        if (v.tag != JT_MISSING) jdict_set(c, all.u.dict, jv_str(own[i]), v);
    }
    return all;
}

/* Returns the variables of a case with every string labeled by its path. */
static struct jval named_vars(struct jctx *c, void *ctx) {
    return chat_name_vars(c, chat_case_vars(c, ctx));
}

int chat_case_spans(const struct jinja *t, const struct chat_case *k, struct buf *out,
                    struct jinja_spans *spans, struct jinja_err *je, struct err *e) {
    struct chat_case copy = *k;
    return jinja_render_spans(t, named_vars, &copy, k->now, NULL, out, spans, je, e);
}

/* ---- markers --------------------------------------------------------------------------------- */

/* Returns the end of the marker that begins at i; 0: no marker begins there. */
static size_t marker_end(const char *s, size_t n, size_t i) {
    enum { MAX_MARKER = 48 };
    char close = s[i] == '<' ? '>' : s[i] == '[' ? ']' : 0;
    bool letter = false;
    if (!close) return 0;
    for (size_t k = i + 1; k < n && k - i < MAX_MARKER; k++) {
        unsigned char ch = (unsigned char)s[k];
        if (ch == (unsigned char)close) return letter ? k + 1 : 0;
        bool upper = (ch >= 'A' && ch <= 'Z') || ch == '_' || ch == '/';
        bool plain = upper || (ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') || ch >= 0x80 ||
                     (ch && strchr("|:-.=\"", ch));
        if (!plain || (close == ']' && !upper)) return 0;
        letter = letter || ch >= 'A';
    }
    return 0;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Appends the markers in out[from, to). */
static char **marks_in(const struct buf *out, size_t from, size_t to, char **v, int *n) {
    for (size_t k = from; k < to; k++) {
        size_t end = marker_end(out->data, to, k);
        if (!end) continue;
        if ((*n & (*n - 1)) == 0) /* The array is full whenever *n is a power of two. */
            v = xreallocarray(v, *n ? (size_t)*n * 2 : 1, sizeof *v);
        v[(*n)++] = xstrndup(out->data + k, end - k);
        k = end - 1;
    }
    return v;
}

char **chat_own_marks(const struct buf *out, const struct jinja_spans *spans, int *n) {
    char **v = NULL;
    int kept = 0;
    size_t from = 0;
    *n = 0;
    for (int i = 0; i < spans->n; i++) { /* A role is part of the marker around it: <|user|>. */
        if (strcmp(spans->origin[spans->v[i].origin].kind, "role") == 0) continue;
        v = marks_in(out, from, spans->v[i].start, v, n);
        from = spans->v[i].end;
    }
    v = marks_in(out, from, out->len, v, n);
    if (*n) qsort(v, (size_t)*n, sizeof *v, by_text);
    for (int i = 0; i < *n; i++) {
        if (kept && strcmp(v[kept - 1], v[i]) == 0)
            free(v[i]);
        else
            v[kept++] = v[i];
    }
    *n = kept;
    return v;
}

void chat_marks_free(char **v, int n) {
    for (int i = 0; i < n; i++) free(v[i]);
    free(v);
}

struct chat_forged *chat_find_forged(const struct buf *out, const struct jinja_spans *spans,
                                     int *n) {
    int n_marks;
    char **marks = chat_own_marks(out, spans, &n_marks);
    struct chat_forged *v = NULL;
    *n = 0;
    for (int i = 0; i < spans->n;) {
        int first = i;
        size_t from = spans->v[i].start, to = spans->v[i].end;
        for (i++; i < spans->n && spans->v[i].start == to; i++) to = spans->v[i].end;
        for (size_t k = from; n_marks && k < to; k++) {
            size_t end = marker_end(out->data, to, k);
            if (!end) continue;
            char *text = xstrndup(out->data + k, end - k);
            if (bsearch(&text, marks, (size_t)n_marks, sizeof *marks, by_text)) {
                while (spans->v[first].end <= k) first++;
                if ((*n & (*n - 1)) == 0) v = xreallocarray(v, *n ? (size_t)*n * 2 : 1, sizeof *v);
                v[(*n)++] = (struct chat_forged){k, end, spans->v[first].origin};
                k = end - 1;
            }
            free(text);
        }
    }
    chat_marks_free(marks, n_marks);
    return v;
}
