// SPDX-License-Identifier: MIT
/* base/doc.h - the JSON documents that hone writes and reads back (results, manifests, records,
 * sensitivities, measurements): trees of cJSON, whose own calls are used for walking, moving and
 * freeing. Other programs' JSON, which must keep its spelling, is base/json.h's.
 *
 * cJSON's numbers are doubles: integers are exact within +-2^53. A value that could not be
 * allocated leaves a mark on the object or array it belongs to, which doc_check finds. So trees are
 * built without a test after each call, and doc_print refuses one that is not whole. */
#ifndef HONE_BASE_DOC_H
#define HONE_BASE_DOC_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads a whole text; cJSON_Delete frees *out. Names of an object differ, strings are UTF-8,
 * numbers are finite, nesting stays within the limit json_depth. `what` names the source in
 * messages. ERR_DATA: line and column of what is wrong. ERR_SYS: out of memory. */
int doc_parse(cJSON **out, const char *text, size_t len, const char *what, struct err *e);
/* Reads a file of at most max_bytes, which may begin with a byte order mark. */
int doc_read(cJSON **out, const char *path, uint64_t max_bytes, struct err *e);
/* Reads the file `name` of a folder; NULL when it is missing or cannot be read. */
cJSON *doc_find(const char *dir, const char *name, uint64_t max_bytes);

/* ---- asking, of an object or NULL ------------------------------------------------------------ */
const cJSON *doc_get(const cJSON *obj, const char *name);
const cJSON *doc_first(const cJSON *v); /* the first child of an object or array; then ->next */
const char *doc_str(const cJSON *obj, const char *name); /* NULL: not a string */
double doc_num(const cJSON *obj, const char *name, double otherwise);
bool doc_bool(const cJSON *obj, const char *name, bool otherwise);
/* Tells whether the member is an exact integer within +-2^53, and sets *out. */
bool doc_i64(const cJSON *obj, const char *name, int64_t *out);
bool doc_is_i64(const cJSON *value, int64_t *out); /* the same of a value */

/* ---- building -------------------------------------------------------------------------------- */
/* These append to the object or array `to`; name is NULL in an array. Texts and names are copied.
 */
cJSON *doc_new(void);                                         /* an empty object */
cJSON *doc_obj(cJSON *to, const char *name);                  /* appends an object and returns it */
cJSON *doc_arr(cJSON *to, const char *name);                  /* appends an array and returns it */
void doc_put_str(cJSON *to, const char *name, const char *s); /* NULL: null */
void doc_put_i64(cJSON *to, const char *name, int64_t v);
/* Appends a number, rounded to nine digits; null when it is not finite. */
void doc_put_num(cJSON *to, const char *name, double v);
void doc_put_bool(cJSON *to, const char *name, bool v);
void doc_put_list(cJSON *to, const char *name, const char *const *v, int n); /* of texts */
void doc_put_copy(cJSON *to, const char *name, const cJSON *v); /* nothing when v is NULL */
/* Appends v, which the tree then owns; where that fails, v is freed. */
void doc_put(cJSON *to, const char *name, cJSON *v);

/* ---- writing --------------------------------------------------------------------------------- */
/* Returns 0 when the tree is whole, and ERR_SYS when memory ran out while it was built. */
int doc_check(const cJSON *root, struct err *e);
/* Appends the text of a tree, for people: values that fit are on one line. */
int doc_print(const cJSON *root, struct buf *out, struct err *e);
/* Appends the shortest text, without blanks. */
int doc_print_line(const cJSON *root, struct buf *out, struct err *e);
/* Writes a file for people, whole or not at all. */
int doc_write(const cJSON *root, const char *path, bool overwrite, struct err *e);

#endif
