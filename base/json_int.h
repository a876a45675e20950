// SPDX-License-Identifier: MIT
/* base/json_int.h - a parsed JSON value, shared by json.c and json_query.c. */
#ifndef HONE_JSON_INT_H
#define HONE_JSON_INT_H

#include "base/json.h"

/* Index of an object's members by name, in the arena of the object. */
struct json_names;
struct json {
    struct json *next, *child, *last;
    /* The name, decoded and as spelled in the source; both NULL in arrays. */
    const char *name, *raw_name;
    /* The value of a string or number, decoded and as spelled in the source. */
    const char *text, *raw;
    union {
        double num;               /* of a number */
        struct json_names *names; /* of an object with many members; NULL: not indexed */
    };
    uint32_t n_name, n_raw_name, n_text, n_raw, n_child;
    enum json_type type;
    bool truth;
};
/* Objects with more members than this are indexed. */
enum { FEW_MEMBERS = 8 };

/* Allocates an index for an object's members; those with names that occur again are not in it. */
void json_names_new(struct arena *a, struct json *obj, uint32_t n_members);
/* Returns the size of such an index in bytes. */
size_t json_names_size(uint32_t n_members);
/* Adds a member to the object's index. Returns the member that already has its name, or NULL. */
struct json *json_names_add(struct json *obj, struct json *m);
/* Returns the member of an indexed object with this name, or NULL. */
struct json *json_names_find(const struct json *obj, const char *name, size_t n);
/* Returns whether the index is full. */
bool json_names_full(const struct json *obj);

#endif
