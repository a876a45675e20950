// SPDX-License-Identifier: MIT
/* chat/tool_elem.c - calls whose parameters are elements named after them (MiniMax M3):
 *
 *   ]<]minimax[>[<invoke
 * name="N">]<]minimax[>[<city>Paris]<]minimax[>[</city>]<]minimax[>[</invoke>
 *
 * A guard text stands before every tag, so values may hold anything but it; models leave it out
 * before closing tags at times, which is accepted when no guarded tag of that name follows. Objects
 * are elements in elements, lists are elements named item; leaves are typed by the schema. */
#include "chat/tool_int.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 60, MAX_NAME = 200 };

/* "<NAME>" behind the guard at i; *end is behind it. */
static bool open_tag(const struct toolparse *p, size_t i, struct jval *name, size_t *end) {
    static const char guard[] = M3_GUARD "<";
    if (!tool_at(p, i, guard)) return false;
    size_t from = i + sizeof guard - 1, k = from;
    while (k < p->in.len && k - from <= MAX_NAME && !strchr(" /<>\"\n", p->in.data[k])) k++;
    if (k == from || k >= p->in.len || p->in.data[k] != '>') return false;
    *name = tool_text(p, from, k);
    *end = k + 1;
    return true;
}

/* Where the closing tag of `name` begins, at or after i; *end is behind it. SIZE_MAX: nowhere. */
static size_t close_tag(const struct toolparse *p, size_t i, struct jval name, size_t *end) {
    char tag[MAX_NAME + sizeof M3_GUARD + 8];
    snprintf(tag, sizeof tag, M3_GUARD "</%.*s>", (int)name.len, name.u.s);
    for (size_t skip = 0; skip < sizeof M3_GUARD; skip += sizeof M3_GUARD - 1) {
        size_t at = tool_find(p, i, tag + skip);
        if (at == SIZE_MAX) continue;
        *end = at + strlen(tag + skip);
        return at;
    }
    return SIZE_MAX;
}

static bool closes_here(const struct toolparse *p, size_t i, struct jval name, size_t *end) {
    size_t k = tool_ws(p, i), at = close_tag(p, k, name, end);
    return at == k;
}

/* The content of an element, from *i to its closing tag, which is passed over. */
static bool element(struct toolparse *p, size_t *i, struct jval name, struct jval schema, int depth,
                    struct jval *out) {
    struct jval child, type = tool_member(schema, "type"), kids = jv_missing();
    size_t k = tool_ws(p, *i), end;
    bool list = false;
    if (depth > MAX_DEPTH) return false;
    while (open_tag(p, k, &child, &end)) {
        bool item = jv_is(child, "item") && !jv_is(type, "object");
        if (kids.tag == JT_MISSING) {
            list = item;
            kids = list ? jv_list(&p->c, 0) : jv_dict(&p->c, 0);
        }
        if (list != item) return false;
        child = jv_copy(&p->c, child.u.s, child.len);
        struct jval *known = NULL, props = tool_member(schema, "properties"), v;
        if (!list && props.tag == JT_DICT) known = jdict_get(&p->c, props.u.dict, child);
        struct jval below = list ? tool_member(schema, "items") : known ? *known : jv_missing();
        if (!element(p, &end, child, below, depth + 1, &v)) return false;
        if (list)
            jlist_add(&p->c, kids.u.list, v);
        else
            jdict_set(&p->c, kids.u.dict, child, v);
        k = tool_ws(p, end);
    }
    if (kids.tag != JT_MISSING) {
        if (!closes_here(p, k, name, i)) return false;
        *out = kids;
        return true;
    }
    size_t to = close_tag(p, *i, name, &end);
    if (to == SIZE_MAX) return false;
    struct jval text = tool_text(p, *i, to);
    bool empty = ju_strip(text, jv_missing(), 3).len == 0;
    *i = end;
    if (empty && jv_is(type, "array"))
        *out = jv_list(&p->c, 0);
    else if (empty && jv_is(type, "object"))
        *out = jv_dict(&p->c, 0);
    else
        *out = tool_typed_as(p, schema, name, text);
    return true;
}

bool tool_parse_elements(struct toolparse *p, size_t *i) {
    static const char invoke[] = M3_GUARD "<invoke name=";
    static const char *const ends[] = {M3_GUARD "</invoke>", "</invoke>"};
    size_t k = *i, end;
    if (!tool_at(p, k, invoke)) k = tool_wrapper(p, k);
    if (!tool_at(p, k, invoke)) return false;
    size_t from = k + sizeof invoke - 1, to = tool_find(p, from, ">");
    if (to == SIZE_MAX || to - from > 500) return false;
    struct jval name = ju_strip(tool_text(p, from, to), jv_str("\" "), 3), key;
    struct jval args = jv_dict(&p->c, 0), v;
    if (!name.len) return false;
    name = jv_copy(&p->c, name.u.s, name.len);
    for (k = tool_ws(p, to + 1); open_tag(p, k, &key, &end); k = tool_ws(p, end)) {
        key = jv_copy(&p->c, key.u.s, key.len);
        if (!element(p, &end, key, tool_schema(p, name, key), 0, &v)) return false;
        jdict_set(&p->c, args.u.dict, key, v);
    }
    for (size_t m = 0; m < COUNT_OF(ends); m++) {
        if (!tool_at(p, k, ends[m])) continue;
        tool_add(p, name, args);
        *i = tool_wrapper_end(p, k + strlen(ends[m]));
        return true;
    }
    return false;
}
