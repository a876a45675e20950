// SPDX-License-Identifier: MIT
/* chat/tool_elem.c - parser of calls that write each parameter as an element with its name (MiniMax
 * M3):
 *
 *   ]<]minimax[>[<invoke
 *   name="N">]<]minimax[>[<city>Paris]<]minimax[>[</city>]<]minimax[>[</invoke>
 *
 * A guard text precedes every tag, so values may contain any other text. Models sometimes omit the
 * guard of a closing tag; this is accepted if no guarded closing tag of that name follows. Objects
 * are nested elements, lists are elements called item, and the schema gives other values their
 * types. */
#include "chat/tool_int.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MAX_NAME = 200 };

/* Parses the opening tag "<NAME>" after the guard text at i; *end: position after it. False: no
 * tag. */
static bool open_tag(const struct toolparse *p, size_t i, struct text *name, size_t *end) {
    static const char guard[] = M3_GUARD "<";
    if (!tool_at(p, i, guard)) return false;
    size_t from = i + sizeof guard - 1, k = from;
    while (k < p->in.len && k - from <= MAX_NAME && !strchr(" /<>\"\n", p->in.data[k])) k++;
    if (k == from || k >= p->in.len || p->in.data[k] != '>') return false;
    *name = tool_text(p, from, k);
    *end = k + 1;
    return true;
}

/* Returns the start of the closing tag of `name` at or after i; *end: position after it. SIZE_MAX:
 * not found. */
static size_t close_tag(const struct toolparse *p, size_t i, struct text name, size_t *end) {
    char tag[MAX_NAME + sizeof M3_GUARD + 8];
    snprintf(tag, sizeof tag, M3_GUARD "</%.*s>", (int)name.n, name.s);
    for (size_t skip = 0; skip < sizeof M3_GUARD; skip += sizeof M3_GUARD - 1) {
        size_t at = tool_find(p, i, tag + skip);
        if (at == SIZE_MAX) continue;
        *end = at + strlen(tag + skip);
        return at;
    }
    return SIZE_MAX;
}

/* Returns whether the closing tag of `name` is at i, after white space; *end: position after it. */
static bool closes_here(const struct toolparse *p, size_t i, struct text name, size_t *end) {
    size_t k = tool_ws(p, i), at = close_tag(p, k, name, end);
    return at == k;
}

/* Returns whether the schema's "type" is the one name; false for lists of types. */
static bool has_type(const struct json *schema, const char *type) {
    const char *s = json_str(json_get(schema, "type"));
    return s && strcasecmp(s, type) == 0;
}

/* Parses the content of element `name` at *i and moves past its closing tag. NULL: not an
 * element. */
static const struct json *element(struct toolparse *p, size_t *i, struct text name,
                                  const struct json *schema, int depth) {
    struct text child;
    struct json *kids = NULL;
    const struct json *v;
    size_t k = tool_ws(p, *i), end;
    bool list = false;
    if (depth > TOOL_DEPTH) return NULL;
    schema = tool_target(p->root, schema);
    while (open_tag(p, k, &child, &end)) {
        const bool item = tool_is(child, "item") && !has_type(schema, "object");
        if (!kids) {
            list = item;
            kids = json_new(&p->arena, list ? JSON_ARR : JSON_OBJ);
        }
        if (list != item) return NULL;
        const struct json *props = json_get(schema, "properties");
        const struct json *below =
            list ? json_get(schema, "items") : json_getn(props, child.s, child.n);
        if (!(v = element(p, &end, child, below, depth + 1))) return NULL;
        if (list)
            json_push(&p->arena, kids, v);
        else
            tool_put(p, kids, child, v);
        k = tool_ws(p, end);
    }
    if (kids) return closes_here(p, k, name, i) ? kids : NULL;
    size_t to = close_tag(p, *i, name, &end);
    if (to == SIZE_MAX) return NULL;
    struct text text = tool_text(p, *i, to);
    const bool empty = tool_strip(text).n == 0;
    *i = end;
    if (empty && has_type(schema, "array")) return json_new(&p->arena, JSON_ARR);
    if (empty && has_type(schema, "object")) return json_new(&p->arena, JSON_OBJ);
    return tool_typed(p, schema, name, text);
}

/* Returns the text without surrounding spaces and quotation marks. */
static struct text bare(struct text t) {
    while (t.n && strchr("\" ", t.s[0])) t.s++, t.n--;
    while (t.n && strchr("\" ", t.s[t.n - 1])) t.n--;
    return t;
}

bool tool_parse_elements(struct toolparse *p, size_t *i) {
    static const char invoke[] = M3_GUARD "<invoke name=";
    static const char *const ends[] = {M3_GUARD "</invoke>", "</invoke>"};
    size_t k = *i, end;
    if (!tool_at(p, k, invoke)) k = tool_wrapper(p, k);
    if (!tool_at(p, k, invoke)) return false;
    size_t from = k + sizeof invoke - 1, to = tool_find(p, from, ">");
    if (to == SIZE_MAX || to - from > 500) return false;
    struct text name = bare(tool_text(p, from, to)), key;
    struct json *args = json_new(&p->arena, JSON_OBJ);
    if (!name.n) return false;
    for (k = tool_ws(p, to + 1); open_tag(p, k, &key, &end); k = tool_ws(p, end)) {
        const struct json *v = element(p, &end, key, tool_schema(p, name, key), 0);
        if (!v) return false;
        tool_put(p, args, key, v);
    }
    for (size_t m = 0; m < COUNT_OF(ends); m++) {
        if (!tool_at(p, k, ends[m])) continue;
        tool_add(p, name, args);
        *i = tool_wrapper_end(p, k + strlen(ends[m]));
        return true;
    }
    return false;
}

/* Returns whether all closing tags in [from, to) have their guard, so that more text cannot change
 * how they are parsed. */
static bool all_guarded(const struct toolparse *p, size_t from, size_t to) {
    const size_t n = sizeof M3_GUARD - 1;
    for (size_t at = tool_find(p, from, "</"); at < to; at = tool_find(p, at + 1, "</"))
        if (at - from < n || memcmp(p->in.data + at - n, M3_GUARD, n) != 0) return false;
    return true;
}

bool tool_cut_elements(struct toolparse *p, size_t at, size_t *cut, struct buf *end,
                       size_t *n_close) {
    static const char invoke[] = M3_GUARD "<invoke name=";
    size_t k = tool_at(p, at, invoke) ? at : tool_wrapper(p, at), to;
    struct text key;
    if (!tool_at(p, k, invoke)) return false;
    const size_t from = k + sizeof invoke - 1, name_to = tool_find(p, from, ">");
    if (name_to == SIZE_MAX) return false;
    const struct text name = bare(tool_text(p, from, name_to));
    for (*cut = k = tool_ws(p, name_to + 1); open_tag(p, k, &key, &to); *cut = k) {
        const struct json *v = element(p, &to, key, tool_schema(p, name, key), 0);
        if (!v || !all_guarded(p, k, to)) break;
        k = tool_ws(p, to);
    }
    *n_close = 1;
    buf_str(end, M3_GUARD "</invoke>");
    return true;
}
