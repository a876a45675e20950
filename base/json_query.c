// SPDX-License-Identifier: MIT
/* base/json_query.c - queries on JSON values, and the index of large objects by name. */
#include "base/json_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum json_type json_type(const struct json *j) {
    return j ? j->type : JSON_NULL;
}

struct json_names { /* a hash table, at most half full; a collision takes the next free slot */
    uint32_t n, mask;
    struct json *slot[];
};

/* Returns the number of slots, a power of two, for an index of n_members. */
static size_t n_slots(uint32_t n_members) {
    size_t n = 16;
    while (n < 2 * (size_t)n_members) n *= 2;
    return n;
}

size_t json_names_size(uint32_t n_members) {
    return sizeof(struct json_names) + n_slots(n_members) * sizeof(struct json *);
}

void json_names_new(struct arena *a, struct json *obj, uint32_t n_members) {
    obj->names = arena_alloc(a, json_names_size(n_members));
    obj->names->mask = (uint32_t)(n_slots(n_members) - 1);
}

bool json_names_full(const struct json *obj) {
    return obj->names->n > obj->names->mask / 2;
}

/* Returns the slot of the member with this name, or the free one where it belongs. */
static struct json **slot_of(struct json_names *x, const char *name, size_t n) {
    size_t i = hash_u64(name, n) & x->mask;
    for (; x->slot[i]; i = (i + 1) & x->mask)
        if (x->slot[i]->n_name == n && memcmp(x->slot[i]->name, name, n) == 0) break;
    return &x->slot[i];
}

struct json *json_names_add(struct json *obj, struct json *m) {
    struct json **slot = slot_of(obj->names, m->name, m->n_name);
    if (*slot) return *slot;
    *slot = m;
    obj->names->n++;
    return NULL;
}

struct json *json_names_find(const struct json *obj, const char *name, size_t n) {
    return *slot_of(obj->names, name, n);
}

const struct json *json_getn(const struct json *obj, const char *name, size_t n) {
    if (json_type(obj) != JSON_OBJ) return NULL;
    if (obj->names) return json_names_find(obj, name, n);
    for (const struct json *m = obj->child; m; m = m->next)
        if (m->n_name == n && memcmp(m->name, name, n) == 0) return m;
    return NULL;
}

const struct json *json_get(const struct json *obj, const char *name) {
    return json_getn(obj, name, strlen(name));
}

const struct json *json_first(const struct json *j) {
    return j ? j->child : NULL;
}

const struct json *json_next(const struct json *child) {
    return child ? child->next : NULL;
}

const char *json_name(const struct json *child) {
    return !child ? NULL : child->name ? child->name : "";
}

const char *json_namen(const struct json *child, size_t *n) {
    *n = child ? child->n_name : 0;
    return json_name(child);
}

int64_t json_len(const struct json *j) {
    return j ? j->n_child : 0;
}

const char *json_str(const struct json *j) {
    return json_type(j) == JSON_STR ? j->text : NULL;
}

const char *json_strn(const struct json *j, size_t *n) {
    *n = json_type(j) == JSON_STR ? j->n_text : 0;
    return json_str(j);
}

const char *json_raw(const struct json *j, size_t *n) {
    *n = j->n_raw;
    return j->raw;
}

const char *json_raw_name(const struct json *child, size_t *n) {
    *n = child->n_raw_name;
    return child->raw_name;
}

double json_num(const struct json *j, double otherwise) {
    return json_type(j) == JSON_NUM && !isnan(j->num) ? j->num : otherwise;
}

const char *json_num_text(const struct json *j) {
    return json_type(j) == JSON_NUM ? j->text : NULL;
}

bool json_is_int(const struct json *j) {
    return json_type(j) == JSON_NUM && isfinite(j->num) && !strpbrk(j->text, ".eE");
}

bool json_bool(const struct json *j, bool otherwise) {
    return json_type(j) == JSON_BOOL ? j->truth : otherwise;
}

/* Returns a map from the names of an object's members to their indices in *list. */
static struct strmap *members_of(const struct json *j, const struct json ***list) {
    struct strmap *m = strmap_new(j->n_child);
    int64_t n = 0;
    *list = xcalloc((size_t)j->n_child + 1, sizeof **list);
    for (const struct json *x = j->child; x; x = x->next) {
        strmap_add(m, x->name, x->n_name, n);
        (*list)[n++] = x;
    }
    return m;
}

/* Returns whether two numbers are equal; integers that a double cannot hold are compared as text.
 */
static bool num_equal(const struct json *a, const struct json *b) {
    if (a->num != b->num) return false;
    return fabs(a->num) < 0x1p53 || !json_is_int(a) || !json_is_int(b) ||
           strcmp(a->text, b->text) == 0;
}

bool json_equal(const struct json *a, const struct json *b) {
    enum json_type t = json_type(a);
    if (t != json_type(b)) return false;
    if (t == JSON_BOOL) return a->truth == b->truth;
    if (t == JSON_NUM) return num_equal(a, b);
    if (t == JSON_STR) return a->n_text == b->n_text && memcmp(a->text, b->text, a->n_text) == 0;
    if (t == JSON_NULL) return true;
    if (a->n_child != b->n_child) return false;
    const struct json *y = b->child;
    bool same = true;
    struct strmap *at = NULL; /* index in `list` by name, if the order differs */
    const struct json **list = NULL;
    for (const struct json *x = a->child; x && same; x = x->next, y = y->next) {
        const struct json *other = y;
        if (t == JSON_OBJ && (x->n_name != y->n_name || memcmp(x->name, y->name, x->n_name) != 0)) {
            if (!at) at = members_of(b, &list);
            const int64_t i = strmap_get(at, x->name, x->n_name);
            other = i < 0 ? NULL : list[i];
        }
        same = other && json_equal(x, other);
    }
    strmap_free(at);
    free(list);
    return same;
}

bool json_i64(const struct json *j, int64_t *out) {
    double v = json_num(j, HUGE_VAL);
    if (!(fabs(v) <= 0x1p53) || v != floor(v)) return false;
    *out = (int64_t)v;
    return true;
}
