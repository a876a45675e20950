// SPDX-License-Identifier: MIT
/* grammar/schema_ref.c - resolution of $ref within one document: a JSON pointer ("#/$defs/a"), an
 * anchor ("#name"), or the $id of a schema, optionally followed by one of these. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/schema_int.h"

struct sc_id { /* a schema with an $id */
    const struct json *schema;
    char *uri; /* absolute: relative ones are resolved against the enclosing $id; without '#' */
};

/* Returns whether member x of a schema contains plain values (enum, const, ...) rather than
 * schemas. */
static bool values_at(const struct json *x) {
    static const char *const keys[] = {"enum", "const", "default", "examples"};
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (strcmp(json_name(x), keys[i]) == 0) return true;
    return false;
}

/* ---- $id ---- */

/* Resolves `ref`, of n bytes, against the URI base and appends the result. */
static void join(const char *base, const char *ref, size_t n, struct buf *out) {
    const char *colon = memchr(ref, ':', n), *slash = memchr(ref, '/', n);
    size_t keep = 0;
    if (!colon || (slash && slash < colon)) {
        const char *host = strstr(base, "://"), *path = host ? strchr(host + 3, '/') : base,
                   *last = path ? strrchr(path, '/') : NULL;
        if (n && *ref == '/')
            keep = host ? (path ? (size_t)(path - base) : strlen(base)) : 0;
        else if (last)
            keep = (size_t)(last + 1 - base);
    }
    buf_add(out, base, keep);
    buf_add(out, ref, n);
}

/* Records all schemas in `at`, including itself, that have an $id, outer ones first. */
static void find_ids(struct sc *c, const struct json *at, const char *base) {
    const char *id = json_type(at) == JSON_OBJ ? json_str(json_get(at, "$id")) : NULL;
    struct buf uri = {0};
    if (id) {
        join(base, id, strcspn(id, "#"), &uri);
        if (c->n_id == c->cap_id) {
            c->cap_id = c->cap_id ? 2 * c->cap_id : 16;
            c->id = xreallocarray(c->id, c->cap_id, sizeof *c->id);
        }
        base = xstrdup(uri.data ? uri.data : "");
        c->id[c->n_id++] = (struct sc_id){at, (char *)(uintptr_t)base};
        buf_release(&uri);
    }
    for (const struct json *x = json_first(at); x; x = json_next(x))
        if (json_type(at) == JSON_ARR || !values_at(x)) find_ids(c, x, base);
}

/* Finds all $id and $anchor members of the schema, on the first call. */
static void know_ids(struct sc *c) {
    if (!c->ids_known) find_ids(c, c->root, "");
    c->ids_known = true;
}

void sc_ids_free(struct sc *c) {
    for (uint32_t i = 0; i < c->n_id; i++) free(c->id[i].uri);
    free(c->id);
}

uint64_t sc_size(const struct json *v) {
    uint64_t n = 1;
    for (const struct json *x = json_first(v); x; x = json_next(x)) n += sc_size(x);
    return n;
}

bool sc_holds(const struct json *at, const struct json *to) {
    bool found = at == to;
    for (const struct json *x = json_first(at); x && !found; x = json_next(x))
        found = sc_holds(x, to);
    return found;
}

/* Returns the entry of the innermost schema with an $id that contains `schema`; NULL: no such
 * schema. */
static const struct sc_id *own_id(const struct sc *c, const struct json *schema) {
    const struct sc_id *in = c->n_id && c->id[0].schema == c->root ? c->id : NULL;
    for (uint32_t i = 0; i < c->n_id; i++)
        if (c->id[i].schema != c->root && sc_holds(c->id[i].schema, schema)) in = &c->id[i];
    return in;
}

/* Returns the schema whose $id is `ref` of n bytes, resolved against the URI base, or NULL. */
static const struct json *called(const struct sc *c, const char *base, const char *ref, size_t n) {
    const struct json *found = NULL;
    struct buf uri = {0};
    join(base, ref, n, &uri);
    for (uint32_t i = 0; i < c->n_id && !found && uri.data; i++)
        if (strcmp(c->id[i].uri, uri.data) == 0) found = c->id[i].schema;
    buf_release(&uri);
    return found;
}

/* Returns whether a schema within the root has its own $id, which changes the meaning of references
 * in it. */
static bool has_ids(struct sc *c) {
    know_ids(c);
    return c->n_id > (c->n_id && c->id[0].schema == c->root);
}

/* ---- pointers and anchors ---- */

/* Returns the schema with the $anchor `name` at or below `at`, or NULL. A schema with its own $id
 * has its own anchors. */
static const struct json *anchor(const struct json *at, const char *name, bool top) {
    static const char *const keys[] = {"$anchor", "$dynamicAnchor"};
    const struct json *found = NULL;
    if (json_type(at) == JSON_OBJ && !top && json_str(json_get(at, "$id"))) return NULL;
    for (size_t i = 0; i < COUNT_OF(keys) && json_type(at) == JSON_OBJ; i++) {
        const char *own = json_str(json_get(at, keys[i]));
        if (own && strcmp(own, name) == 0) return at;
    }
    for (const struct json *x = json_first(at); x && !found; x = json_next(x))
        if (json_type(at) == JSON_ARR || !values_at(x)) found = anchor(x, name, false);
    return found;
}

/* Returns a member, or an array's element if `name` is its number; NULL: not found. */
static const struct json *member_of(struct sc *c, const struct json *at, const char *name) {
    char *end;
    if (!gram_spend(c->g, (uint64_t)json_len(at))) return NULL;
    if (json_type(at) != JSON_ARR) return json_get(at, name);
    const long k = strtol(name, &end, 10);
    const struct json *x = *end || end == name ? NULL : json_first(at);
    for (long i = 0; x && i < k; i++) x = json_next(x);
    return x;
}

/* Resolves a JSON pointer, which may contain %xx escapes, starting at `at`. NULL: not found. */
static const struct json *place(struct sc *c, const struct json *at, const char *p) {
    while (at && *p) {
        struct buf name = {0};
        if (*p++ != '/') return NULL;
        buf_str(&name, "");
        for (; *p && *p != '/'; p++) {
            if (*p == '~' && (p[1] == '0' || p[1] == '1')) {
                buf_chr(&name, *++p == '0' ? '~' : '/');
            } else if (*p == '%' && p[1] && p[2]) {
                const char hex[3] = {p[1], p[2], 0};
                buf_chr(&name, (char)(uint8_t)strtoul(hex, NULL, 16));
                p += 2;
            } else {
                buf_chr(&name, *p);
            }
        }
        at = member_of(c, at, name.data);
        buf_release(&name);
    }
    return at;
}

const struct json *sc_resolve(struct sc *c, const struct json *schema, const char *ref) {
    const size_t n = strcspn(ref, "#");
    if (!c->n_values) c->n_values = sc_size(c->root);
    know_ids(c);
    if ((has_ids(c) || n) && !gram_spend(c->g, c->n_values)) return NULL;
    const struct sc_id *own = has_ids(c) || n ? own_id(c, schema) : NULL;
    const struct json *in = own ? own->schema : c->root, *to;
    if (n) in = called(c, own ? own->uri : "", ref, n);
    if (!in || !ref[n]) return in;
    ref += n + 1;
    if (*ref && *ref != '/' && !gram_spend(c->g, c->n_values)) return NULL;
    to = *ref && *ref != '/' ? anchor(in, ref, true) : place(c, in, ref);
    /* Some documents use pointers from the root even below an $id. */
    return !to && !n && *ref == '/' ? place(c, c->root, ref) : to;
}

bool sc_static_ref(struct sc *c, const struct json *schema) {
    const char *s = json_str(json_get(schema, "$dynamicRef"));
    return s && *s == '#' && !has_ids(c);
}

void sc_add_ref(struct sc *c, struct sc_set *set, const struct json *schema,
                const struct json *ref) {
    const char *s = json_str(ref);
    const struct json *to = s ? sc_resolve(c, schema, s) : NULL;
    if (!s)
        sc_fail(c, ref, "$ref is not a string");
    else if (!to && c->g->full)
        c->rc = grammar_full(c->g, c->e);
    else if (!to && *s != '#')
        sc_relax(c, ref, "a $ref to another document is not supported");
    else if (!to)
        sc_fail(c, ref, "the target of this $ref does not exist");
    else if (to == schema || sc_is_open(set, to))
        sc_fail(c, ref, "this $ref leads to itself");
    else
        sc_add(c, set, to);
}
