// SPDX-License-Identifier: MIT
/* base/json.h - JSON that others write or read and that must keep its spelling: templates, requests
 * and answers of serve, Hugging Face files. Hone's own documents are trees of cJSON (base/doc.h).
 *
 * A number keeps how it was written, so that integers of any size and 1.0 stay what they are; it is
 * read as a double. Members keep their order. Nodes are borrowed until json_free, or until their
 * arena goes. Every question accepts NULL, which stands for a missing node. */
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

/* Returns, in the text of valid JSON, the first character from s on that is no white space;
 * json_skip_value returns what follows the value at s. The text ends at `end`, or at its NUL
 * where that is NULL. */
const char *json_skip_ws(const char *s, const char *end);
const char *json_skip_value(const char *s, const char *end);

/* Reads text, which need not end with a NUL; white space may follow the value, nothing else.
 * Strings are valid UTF-8 without NUL, names of an object differ, nesting stays within the limit
 * json_depth. `what` names the source in messages ("dir/config.json"). ERR_DATA says what is wrong
 * at which line and column. */
int json_parse(struct json **out, const char *text, size_t len, const char *what, struct err *e);
/* Does the same with json_opts.mend. json_unmend replaces C0 80 by NUL in the n bytes s and returns
 * the new length. */
int json_parse_mend(struct json **out, const char *text, size_t len, const char *what,
                    struct err *e);
size_t json_unmend(char *s, size_t n);
/* Reads a file of at most max_bytes, which may begin with a byte order mark. */
int json_read(struct json **out, const char *path, uint64_t max_bytes, struct err *e);
/* Does the same as Python reads JSON: NaN, Infinity and -Infinity are numbers, and of two members
 * of one name the later value counts. For the configuration files of model folders. */
int json_parse_py(struct json **out, const char *text, size_t len, const char *what, struct err *e);
int json_read_py(struct json **out, const char *path, uint64_t max_bytes, struct err *e);
void json_free(struct json *root);

/* What else json_parse_in takes; all zero is as strict as json_parse. */
struct json_opts {
    bool any_text;   /* strings with NUL, half surrogate pairs (as three bytes), invalid UTF-8 */
    bool mend;       /* escapes of half surrogate pairs become U+FFFD, those of NUL the bytes C0 80,
                        which are not UTF-8: json_quote turns them back into the escape */
    bool python;     /* the words NaN, Infinity and -Infinity are numbers */
    bool last_wins;  /* of two members of one name, the later value at the earlier place */
    bool first_wins; /* of two members of one name, the earlier one */
    bool *twice;     /* NULL, or set when a name came twice and one of the two won */
    int max_depth;   /* levels of nesting; 0: the limit json_depth */
};
/* Reads a value into the arena a, which owns it. With `used`, anything may follow the value, and
 * *used is the number of bytes up to its end. */
int json_parse_in(const struct json **out, struct arena *a, const char *text, size_t len,
                  const struct json_opts *o, const char *what, size_t *used, struct err *e);

/* ---- asking ---------------------------------------------------------------------------------- */
enum json_type { JSON_NULL, JSON_BOOL, JSON_NUM, JSON_STR, JSON_ARR, JSON_OBJ };
enum json_type json_type(const struct json *j); /* JSON_NULL for NULL */
/* Returns the member of that name, by a linear search: walk over big objects instead. NULL when
 * obj has none, or is no object. */
const struct json *json_get(const struct json *obj, const char *name);
const struct json *json_getn(const struct json *obj, const char *name, size_t n);
const struct json *json_first(const struct json *j); /* first child of array or object */
const struct json *json_next(const struct json *child);
/* Returns the name of a member; "" for an element of an array, NULL for NULL. */
const char *json_name(const struct json *child);
const char *json_namen(const struct json *child, size_t *n);
int64_t json_len(const struct json *j);     /* children */
const char *json_str(const struct json *j); /* ends with a NUL; NULL when j is no string */
const char *json_strn(const struct json *j, size_t *n);
double json_num(const struct json *j, double otherwise); /* `otherwise` for NaN, too */
const char *json_num_text(const struct json *j); /* as it was written; NULL when j is no number */
bool json_is_int(const struct json *j);          /* a number written without point and exponent */
bool json_bool(const struct json *j, bool otherwise);
/* Tells whether j is a number that is an exact integer within +-2^53, and sets *out. */
bool json_i64(const struct json *j, int64_t *out);
/* Compares values deeply: 1 equals 1.0, the order of members is free. */
bool json_equal(const struct json *a, const struct json *b);
/* Returns a string, or a member's name, as it stands between its quotes in the text that
 * json_parse_in was given, which must still be there; json_escape reads its escapes. */
const char *json_raw(const struct json *j, size_t *n);
const char *json_raw_name(const struct json *child, size_t *n);
/* Decodes the escape whose backslash is at s and returns its bytes; half a surrogate pair is
 * decoded as it is. 0: this is no escape. */
size_t json_escape(const char *s, const char *end, uint32_t *cp);

/* ---- putting together, in an arena ----------------------------------------------------------- */
struct json *json_new(struct arena *a, enum json_type t); /* null, [] or {} */
struct json *json_new_bool(struct arena *a, bool truth);
struct json *json_new_str(struct arena *a, const char *s, size_t n);
/* Appends a copy of v (NULL: null), whose children are shared, to an array. */
void json_push(struct arena *a, struct json *arr, const struct json *v);
/* Sets a member to a copy of v, whose children are shared; a member of that name keeps its place.
 */
void json_put(struct arena *a, struct json *obj, const char *name, size_t n, const struct json *v);

/* ---- writing --------------------------------------------------------------------------------- */
/* Appends the value as JSON text in one line; numbers as they were written. */
void json_write(struct buf *out, const struct json *j);
/* Does the same with a space behind every comma and colon. */
void json_write_spaced(struct buf *out, const struct json *j);
/* Appends s to b as a JSON string with quotes. Invalid UTF-8 becomes U+FFFD, but C0 80 the escape
 * of NUL. */
void json_quote(struct buf *b, const char *s, size_t len);
/* Returns the length of the valid UTF-8 sequence at p, of n bytes; minus the bytes of its broken
 * prefix, at least one, when it is not valid. */
int json_utf8(const unsigned char *p, size_t n);

/* Writer: valid JSON into a buffer, commas and indentation handled. Floats with %.9g (finite only;
 * others become null). Calls nest: jw_obj(w, name) ... jw_end(w). name is NULL inside arrays. */
struct jw {
    struct buf *b;
    int depth;
    int n_deeper; /* levels begun beyond the last */
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
/* Writes a parsed value again. NULL is null. */
void jw_copy(struct jw *w, const char *name, const struct json *v);
/* Writes a value that is already JSON text (written by us); it is trusted as it is. */
void jw_raw(struct jw *w, const char *name, const char *json_text);

#endif
