// SPDX-License-Identifier: MIT
/* core/json.h - reading JSON (over cJSON; only json.c includes it) and a streaming writer.
 *
 * Reader limits: depth 64, duplicate names in an object refused, numbers are doubles. Lookups are
 * case-sensitive. Nodes are borrowed until json_free. Accessors accept NULL (a missing node). */
#ifndef HONE_CORE_JSON_H
#define HONE_CORE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"

struct json; /* one value */

/* In the text of valid JSON: the first character at s or behind it that is no white space, and what
 * follows the value at s. Text ends at `end`; NULL: at its NUL. */
const char *json_skip_ws(const char *s, const char *end);
const char *json_skip_value(const char *s, const char *end);

/* text need not be NUL-terminated; trailing white space is fine, other trailing bytes are not.
 * `what` names the source in messages ("dir/config.json"). */
int json_parse(struct json **out, const char *text, size_t len, const char *what, struct err *e);
int json_read(struct json **out, const char *path, uint64_t max_bytes, struct err *e);
void json_free(struct json *root);

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUM, JSON_STR, JSON_ARR, JSON_OBJ };
enum json_type json_type(const struct json *j); /* NULL pointer: JSON_NULL */
/* NULL if absent. A linear search: walk big objects with json_first/json_next instead. */
const struct json *json_get(const struct json *obj, const char *name);
const struct json *json_first(const struct json *j); /* first child of array or object */
const struct json *json_next(const struct json *child);
/* Of a member; "" for an element of an array, NULL for a NULL pointer. */
const char *json_name(const struct json *child);
int64_t json_len(const struct json *j);     /* children; O(n) */
const char *json_str(const struct json *j); /* NULL when not a string */
double json_num(const struct json *j, double otherwise);
bool json_bool(const struct json *j, bool otherwise);
/* True and *out set when j is a number that is an exact integer within +-2^53. */
bool json_i64(const struct json *j, int64_t *out);
/* Deep equality of values: 1 equals 1.0, the order of members is free. */
bool json_equal(const struct json *a, const struct json *b);
/* Appends the value as JSON text in one line. */
void json_write(struct buf *out, const struct json *j);

/* Writer: valid JSON into a buffer, commas and indentation handled. Floats with %.9g (finite only;
 * others become null). Calls nest: jw_obj(w, name) ... jw_end(w). name is NULL inside arrays. */
struct jw {
    struct buf *b;
    int depth;
    bool pretty;
    bool need_comma[64];
    bool is_arr[64];
};
void jw_init(struct jw *w, struct buf *b, bool pretty);
void jw_obj(struct jw *w, const char *name);
void jw_arr(struct jw *w, const char *name);
void jw_end(struct jw *w);
void jw_str(struct jw *w, const char *name, const char *value); /* NULL value: null */
void jw_strn(struct jw *w, const char *name, const char *value, size_t len);
void jw_i64(struct jw *w, const char *name, int64_t value);
void jw_u64(struct jw *w, const char *name, uint64_t value);
void jw_num(struct jw *w, const char *name, double value);
void jw_bool(struct jw *w, const char *name, bool value);
void jw_null(struct jw *w, const char *name);
/* A parsed value written again: NULL is null. */
void jw_copy(struct jw *w, const char *name, const struct json *v);
/* A value that is already JSON text (written by us); trusted as it is. */
void jw_raw(struct jw *w, const char *name, const char *json_text);
/* Appends s to b as a JSON string with quotes. Invalid UTF-8 becomes U+FFFD. */
void json_quote(struct buf *b, const char *s, size_t len);

#endif
