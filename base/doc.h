// SPDX-License-Identifier: MIT
/* base/doc.h - hone's own JSON documents (results, manifests, records, sensitivities, measurements)
 * as cJSON trees. Walk, move and free them with cJSON's own functions. For JSON from other
 * programs, whose spelling must be preserved, use base/json.h.
 *
 * cJSON's numbers are doubles, so integers are exact within +-2^53. If an allocation fails, the
 * object or array that should have received the value is marked, and doc_check finds the mark. So
 * trees can be built without checking each call; doc_print refuses an incomplete tree. */
#ifndef HONE_BASE_DOC_H
#define HONE_BASE_DOC_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* ---- reading --------------------------------------------------------------------------------- */

/* Parses a whole text; free *out with cJSON_Delete. Names within an object must differ, strings
 * must be UTF-8, numbers finite, and nesting within the limit json_depth. `what` names the source
 * in messages. ERR_DATA gives line and column of the fault. ERR_SYS: out of memory. */
int doc_parse(cJSON **out, const char *text, size_t len, const char *what, struct err *e);
/* Reads a file of at most max_bytes, which may begin with a byte order mark. */
int doc_read(cJSON **out, const char *path, uint64_t max_bytes, struct err *e);
/* Reads file `name` of a folder; NULL: missing or unreadable. */
cJSON *doc_find(const char *dir, const char *name, uint64_t max_bytes);

/* ---- access (an object, or NULL) ------------------------------------------------------------- */

/* Returns the member `name`; NULL if it is missing or obj is not an object. */
const cJSON *doc_get(const cJSON *obj, const char *name);
const cJSON *doc_first(const cJSON *v); /* first child of an object or array; follow ->next */
const char *doc_str(const cJSON *obj, const char *name);           /* NULL: not a string */
bool doc_is(const cJSON *obj, const char *name, const char *text); /* the member is this string */
/* Returns the number named `name`, or `otherwise` if it is missing or not a number. */
double doc_num(const cJSON *obj, const char *name, double otherwise);
/* Returns the truth value named `name`, or `otherwise` if it is missing or not a truth value. */
bool doc_bool(const cJSON *obj, const char *name, bool otherwise);
/* Returns whether the member is an integer within +-2^53; if so, sets *out to it. */
bool doc_i64(const cJSON *obj, const char *name, int64_t *out);
bool doc_is_i64(const cJSON *value, int64_t *out); /* the same for a value */

/* ---- building -------------------------------------------------------------------------------- */

cJSON *doc_new(void); /* an empty object */
/* The functions below append to the object or array `to`; name is NULL in an array. Strings are
 * copied. */
cJSON *doc_obj(cJSON *to, const char *name);                  /* appends an object and returns it */
cJSON *doc_arr(cJSON *to, const char *name);                  /* appends an array and returns it */
void doc_put_str(cJSON *to, const char *name, const char *s); /* NULL: null */
/* Adds an integer member, written with all its digits. */
void doc_put_i64(cJSON *to, const char *name, int64_t v);
/* Appends a number, rounded to nine digits; null if it is not finite. */
void doc_put_num(cJSON *to, const char *name, double v);
void doc_put_bool(cJSON *to, const char *name, bool v);
void doc_put_list(cJSON *to, const char *name, const char *const *v, int n); /* of strings */
void doc_put_copy(cJSON *to, const char *name, const cJSON *v);              /* v NULL: nothing */
/* Appends v, which the tree then owns; frees v on failure. */
void doc_put(cJSON *to, const char *name, cJSON *v);

/* ---- writing --------------------------------------------------------------------------------- */

/* Returns 0 if the tree is complete, ERR_SYS if memory ran out while it was built. */
int doc_check(const cJSON *root, struct err *e);
/* Appends the tree as indented text, with short values on one line. */
int doc_print(const cJSON *root, struct buf *out, struct err *e);
/* Appends the tree in the most compact form, without blanks. */
int doc_print_line(const cJSON *root, struct buf *out, struct err *e);
/* Writes an indented file atomically. */
int doc_write(const cJSON *root, const char *path, bool overwrite, struct err *e);

#endif
