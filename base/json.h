// SPDX-License-Identifier: MIT
/* base/json.h - JSON parser and writer that preserve the spelling of values. For external data:
 * templates, requests and responses of serve, Hugging Face files. hone's own documents use cJSON
 * trees (base/doc.h).
 *
 * Numbers keep their text, so 1.0 and integers of any size survive; their values are doubles.
 * Members keep their order. Nodes are valid until json_free or until their arena is freed. All
 * queries accept NULL, which means a missing node. */
#ifndef HONE_BASE_JSON_H
#define HONE_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct json; /* one value */

/* ---- reading --------------------------------------------------------------------------------- */

/* Skips white space: returns the first other character at or after s, or `end`. */
const char *json_skip_ws(const char *s, const char *end);

/* Parses one value; only white space may follow it. The text need not be NUL-terminated. Strings
 * must be valid UTF-8 without NUL, the names in an object distinct, and the nesting within the
 * limit json_depth. `what` names the source in messages ("dir/config.json"). ERR_DATA gives line
 * and column. */
int json_parse(struct json **out, const char *text, size_t len, const char *what, struct err *e);
/* Parses with json_opts.mend. json_unmend replaces C0 80 with NUL in the n bytes at s and returns
 * the new length. */
int json_parse_mend(struct json **out, const char *text, size_t len, const char *what,
                    struct err *e);
/* Turns each C0 80 of n bytes at s back into NUL in place; returns the new length. */
size_t json_unmend(char *s, size_t n);
/* Reads a file of at most max_bytes, which may begin with a byte order mark. */
int json_read(struct json **out, const char *path, uint64_t max_bytes, struct err *e);
/* Parse as Python does, for the configuration files of model folders: NaN, Infinity and -Infinity
 * are numbers, and the last of several members with the same name wins. */
int json_parse_py(struct json **out, const char *text, size_t len, const char *what, struct err *e);
/* Reads a file as Python's json does; *out is NULL on error, free it with json_free(). */
int json_read_py(struct json **out, const char *path, uint64_t max_bytes, struct err *e);
/* Reads a file like json_read_py, but with json_opts.nul. */
int json_read_nul(struct json **out, const char *path, uint64_t max_bytes, struct err *e);
void json_free(struct json *root);

/* Relaxations for json_parse_in; all zero: as strict as json_parse. */
struct json_opts {
    bool any_text;   /* allow NUL, unpaired surrogates (as three bytes) and invalid UTF-8 */
    bool mend;       /* unpaired surrogates become U+FFFD; an escaped NUL becomes C0 80,
                      which is not UTF-8 and which json_quote writes as an escape again */
    bool nul;        /* an escaped NUL becomes C0 80 */
    bool python;     /* NaN, Infinity and -Infinity are numbers */
    bool last_wins;  /* repeated names: keep the last value, at the place of the first */
    bool first_wins; /* repeated names: keep the first value */
    bool *twice;     /* set if a name was repeated and one value won; may be NULL */
    int max_depth;   /* levels of nesting; 0: the limit json_depth */
};
/* Parses a value into the arena a, which owns it. If `used` is not NULL, any text may follow the
 * value, and *used is set to the number of bytes up to its end. */
int json_parse_in(const struct json **out, struct arena *a, const char *text, size_t len,
                  const struct json_opts *o, const char *what, size_t *used, struct err *e);

/* ---- queries --------------------------------------------------------------------------------- */

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUM, JSON_STR, JSON_ARR, JSON_OBJ };
enum json_type json_type(const struct json *j); /* JSON_NULL for NULL */
/* Returns the member with this name, or NULL. Large objects have an index, so this stays fast. */
const struct json *json_get(const struct json *obj, const char *name);
/* Returns the first member whose name is these n bytes; NULL if it is missing or obj is not an
 * object. */
const struct json *json_getn(const struct json *obj, const char *name, size_t n);
const struct json *json_first(const struct json *j); /* first child of array or object */
/* Returns the next member or item, NULL after the last; child may be NULL. */
const struct json *json_next(const struct json *child);
/* Returns the name of a member; "" for an element of an array, NULL for NULL. */
const char *json_name(const struct json *child);
/* Returns the member's name and sets *n to its length; child may be NULL (*n is then 0). */
const char *json_namen(const struct json *child, size_t *n);
int64_t json_len(const struct json *j);     /* children */
const char *json_str(const struct json *j); /* NUL-terminated; NULL: not a string */
/* Returns the string's text and sets *n to its length; NULL and 0 for other types. */
const char *json_strn(const struct json *j, size_t *n);
double json_num(const struct json *j, double otherwise); /* `otherwise` if not a number, or NaN */
const char *json_num_text(const struct json *j);         /* as written; NULL: not a number */
bool json_is_int(const struct json *j);                  /* a number without point and exponent */
/* Returns the truth value, or `otherwise` for other types and NULL. */
bool json_bool(const struct json *j, bool otherwise);
/* Returns whether j is an integer within +-2^53, and stores it in *out. */
bool json_i64(const struct json *j, int64_t *out);
/* Returns whether the values are equal, recursively: 1 equals 1.0, and the order of members is
 * ignored. */
bool json_equal(const struct json *a, const struct json *b);
/* Return a string, or a member's name, with its escapes, as written between the quotes in the text
 * given to json_parse_in. That text must still exist. json_escape decodes the escapes. */
const char *json_raw(const struct json *j, size_t *n);
/* Returns the name as written in the document, with escapes, and sets *n to its length. */
const char *json_raw_name(const struct json *child, size_t *n);
/* Decodes the escape whose backslash is at s and returns its length in bytes, or 0 if it is
 * invalid. An unpaired surrogate is decoded unchanged. */
size_t json_escape(const char *s, const char *end, uint32_t *cp);

/* ---- construction, in an arena -------------------------------------------------------------- */

struct json *json_new(struct arena *a, enum json_type t); /* null, [] or {} */
struct json *json_new_bool(struct arena *a, bool truth);
/* Returns a string value in the arena with a copy of n bytes. */
struct json *json_new_str(struct arena *a, const char *s, size_t n);
/* Appends a shallow copy of v (NULL: null) to an array; its children are shared. */
void json_push(struct arena *a, struct json *arr, const struct json *v);
/* Sets a member to a shallow copy of v; an existing member keeps its place. */
void json_put(struct arena *a, struct json *obj, const char *name, size_t n, const struct json *v);

/* ---- writing --------------------------------------------------------------------------------- */

/* Appends the value as JSON on one line; numbers keep their text. */
void json_write(struct buf *out, const struct json *j);
/* Appends the value with a space after every comma and colon. */
void json_write_spaced(struct buf *out, const struct json *j);
/* Appends s to b as a quoted JSON string. Invalid UTF-8 becomes U+FFFD, except C0 80, which becomes
 * an escaped NUL. */
void json_quote(struct buf *b, const char *s, size_t len);
/* Returns the length of the UTF-8 sequence at p, of n bytes. If it is invalid, returns minus the
 * length of the broken prefix, at least 1. */
int json_utf8(const unsigned char *p, size_t n);

/* Writer that appends valid JSON to a buffer and handles commas and indentation. Floats use %.9g;
 * non-finite ones become null. Calls nest: jw_obj(w, name) ... jw_end(w). name is NULL in arrays.
 */
struct jw {
    struct buf *b;
    int depth;
    int n_deeper; /* open levels that the arrays below cannot hold */
    bool pretty;
    bool need_comma[64];
    bool is_arr[64];
};
/* Starts writing JSON to b; pretty: one line per value, indented. */
void jw_init(struct jw *w, struct buf *b, bool pretty);
/* Opens an object; name NULL: an item of a list or the root. Close it with jw_end(). */
void jw_obj(struct jw *w, const char *name);
/* Opens a list; name NULL: an item of a list or the root. Close it with jw_end(). */
void jw_arr(struct jw *w, const char *name);
/* Closes the level opened last. */
void jw_end(struct jw *w);
void jw_str(struct jw *w, const char *name, const char *value); /* NULL value: null */
/* Writes a string of len bytes, which need not end in NUL; name NULL: an item of a list. */
void jw_strn(struct jw *w, const char *name, const char *value, size_t len);
/* Writes an integer; name NULL: an item of a list. */
void jw_i64(struct jw *w, const char *name, int64_t value);
void jw_u64(struct jw *w, const char *name, uint64_t value);
/* Writes a number with nine digits, null if it is not finite; name NULL: an item of a list. */
void jw_num(struct jw *w, const char *name, double value);
void jw_bool(struct jw *w, const char *name, bool value);
/* Writes null; name NULL: an item of a list. */
void jw_null(struct jw *w, const char *name);
/* Writes a parsed value; NULL becomes null. */
void jw_copy(struct jw *w, const char *name, const struct json *v);
/* Writes JSON text unchecked; it must come from hone itself. */
void jw_raw(struct jw *w, const char *name, const char *json_text);

#endif
