// SPDX-License-Identifier: MIT
/* base/doc.c - hone's own JSON documents as cJSON trees. */
#include "base/doc.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/out.h"

/* ---- reading --------------------------------------------------------------------------------- */

struct check {
    const char *what;
    int max_depth;
    struct err *e;
};

/* Orders two `const char *` by bytes, for qsort. */
static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Returns 0, ERR_DATA if a name occurs twice in the object, or an error if memory runs out. */
static int check_names_differ(const struct check *c, const cJSON *obj) {
    const size_t n = (size_t)cJSON_GetArraySize(obj);
    const char **name = try_calloc(n + 1, sizeof *name, c->what, c->e), *twice = NULL;
    const cJSON *m;
    size_t k = 0;
    if (!name) return ERR_SYS;
    cJSON_ArrayForEach(m, obj) name[k++] = m->string;
    qsort(name, n, sizeof *name, by_name);
    for (size_t i = 1; i < n && !twice; i++)
        if (strcmp(name[i - 1], name[i]) == 0) twice = name[i];
    if (twice) err_set(c->e, ERR_DATA, "%s: the name \"%.80s\" occurs twice", c->what, twice);
    free(name);
    return twice ? ERR_DATA : 0;
}

static bool is_utf8(const char *s) {
    size_t left = strlen(s);
    for (int n; left; s += n, left -= (size_t)n)
        if ((n = json_utf8((const unsigned char *)s, left)) < 0) return false;
    return true;
}

/* Rejects values that cJSON accepts but hone does not. */
static int check_value(const struct check *c, const cJSON *v, int depth) {
    if ((cJSON_IsArray(v) || cJSON_IsObject(v)) && depth >= c->max_depth)
        return err_set(c->e, ERR_DATA, "%s: nested deeper than %d levels", c->what, c->max_depth);
    if ((v->string && !is_utf8(v->string)) || (cJSON_IsString(v) && !is_utf8(v->valuestring)))
        return err_set(c->e, ERR_DATA, "%s: a string is not UTF-8", c->what);
    if (cJSON_IsNumber(v) && !isfinite(v->valuedouble))
        return err_set(c->e, ERR_DATA, "%s: a number is too large", c->what);
    if (cJSON_IsObject(v)) TRY(check_names_differ(c, v));
    const cJSON *m;
    cJSON_ArrayForEach(m, v) TRY(check_value(c, m, depth + 1));
    return 0;
}

/* Reports the line and column at which parsing stopped. */
static int bad_at(const char *text, const char *end, const char *what, struct err *e) {
    unsigned long line = 1;
    const char *begin = text;
    for (const char *s = text; s < end; s++)
        if (*s == '\n') line++, begin = s + 1;
    return err_set(e, ERR_DATA, "%s: line %lu, column %lu: not JSON", what, line,
                   (unsigned long)(end - begin) + 1);
}

int doc_parse(cJSON **out, const char *text, size_t len, const char *what, struct err *e) {
    const struct check c = {what, (int)limit_of(LIM_JSON_DEPTH), e};
    const char *end = text;
    *out = NULL;
    /* cJSON reads up to a NUL, and some versions read one byte past the given length. */
    char *copy = try_calloc(len + 1, 1, what, e);
    if (!copy) return ERR_SYS;
    memcpy(copy, text, len);
    const size_t n = strlen(copy);
    errno = 0;
    cJSON *root = n == len ? cJSON_ParseWithOpts(copy, &end, 1) : NULL;
    int rc = 0;
    if (!root && n == len && errno == ENOMEM)
        rc = err_set(e, ERR_SYS, "%s: out of memory for its values", what);
    else if (!root)
        rc = bad_at(copy, n == len ? end : copy + n, what, e);
    else
        rc = check_value(&c, root, 0);
    free(copy);
    if (rc)
        cJSON_Delete(root);
    else
        *out = root;
    return rc;
}

int doc_read(cJSON **out, const char *path, uint64_t max_bytes, struct err *e) {
    char *text;
    size_t len;
    *out = NULL;
    TRY(io_read_file(&text, &len, path, max_bytes, e));
    const size_t mark = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    const int rc = doc_parse(out, text + mark, len - mark, path, e);
    free(text);
    return rc;
}

cJSON *doc_find(const char *dir, const char *name, uint64_t max_bytes) {
    cJSON *root = NULL;
    struct err ignored;
    char *path = io_join(dir, name);
    if (io_exists(path)) (void)doc_read(&root, path, max_bytes, &ignored);
    free(path);
    return root;
}

/* ---- access ---------------------------------------------------------------------------------- */

const cJSON *doc_get(const cJSON *obj, const char *name) {
    return cJSON_IsObject(obj) ? cJSON_GetObjectItemCaseSensitive(obj, name) : NULL;
}

const cJSON *doc_first(const cJSON *v) {
    return v ? v->child : NULL;
}

const char *doc_str(const cJSON *obj, const char *name) {
    return cJSON_GetStringValue(doc_get(obj, name));
}

bool doc_is(const cJSON *obj, const char *name, const char *text) {
    const char *s = doc_str(obj, name);
    return s && strcmp(s, text) == 0;
}

double doc_num(const cJSON *obj, const char *name, double otherwise) {
    const cJSON *v = doc_get(obj, name);
    return cJSON_IsNumber(v) ? v->valuedouble : otherwise;
}

bool doc_bool(const cJSON *obj, const char *name, bool otherwise) {
    const cJSON *v = doc_get(obj, name);
    return cJSON_IsBool(v) ? cJSON_IsTrue(v) : otherwise;
}

bool doc_is_i64(const cJSON *v, int64_t *out) {
    if (!cJSON_IsNumber(v) || fabs(v->valuedouble) > 0x1p53) return false;
    if (v->valuedouble != floor(v->valuedouble)) return false;
    *out = (int64_t)v->valuedouble;
    return true;
}

bool doc_i64(const cJSON *obj, const char *name, int64_t *out) {
    return doc_is_i64(doc_get(obj, name), out);
}

/* ---- building -------------------------------------------------------------------------------- */

/* Mark of an object or array that lost a value, in a field that cJSON does not use for these. */
enum { LOST_A_VALUE = 1 };

/* Appends v to `to` and returns v; NULL: out of memory. */
static cJSON *append(cJSON *to, const char *name, cJSON *v) {
    if (v && (name ? cJSON_AddItemToObject(to, name, v) : cJSON_AddItemToArray(to, v))) return v;
    cJSON_Delete(v);
    if (to) to->valueint = LOST_A_VALUE;
    return NULL;
}

void doc_put(cJSON *to, const char *name, cJSON *v) {
    (void)append(to, name, v);
}

cJSON *doc_new(void) {
    return cJSON_CreateObject();
}

cJSON *doc_obj(cJSON *to, const char *name) {
    return append(to, name, cJSON_CreateObject());
}

cJSON *doc_arr(cJSON *to, const char *name) {
    return append(to, name, cJSON_CreateArray());
}

void doc_put_str(cJSON *to, const char *name, const char *s) {
    doc_put(to, name, s ? cJSON_CreateString(s) : cJSON_CreateNull());
}

void doc_put_i64(cJSON *to, const char *name, int64_t v) {
    char digits[24];
    const bool exact = v >= -(INT64_C(1) << 53) && v <= INT64_C(1) << 53;
    snprintf(digits, sizeof digits, "%lld", (long long)v);
    doc_put(to, name, exact ? cJSON_CreateNumber((double)v) : cJSON_CreateRaw(digits));
}

void doc_put_num(cJSON *to, const char *name, double v) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.9g", v);
    doc_put(to, name, isfinite(v) ? cJSON_CreateNumber(strtod(digits, NULL)) : cJSON_CreateNull());
}

void doc_put_bool(cJSON *to, const char *name, bool v) {
    doc_put(to, name, cJSON_CreateBool(v));
}

void doc_put_list(cJSON *to, const char *name, const char *const *v, int n) {
    cJSON *list = doc_arr(to, name);
    for (int i = 0; i < n; i++) doc_put_str(list, NULL, v[i]);
}

void doc_put_copy(cJSON *to, const char *name, const cJSON *v) {
    if (v) doc_put(to, name, cJSON_Duplicate(v, true));
}

/* ---- writing --------------------------------------------------------------------------------- */

enum { LINE = 100, INDENT = 2 };

int doc_check(const cJSON *root, struct err *e) {
    const bool nested = cJSON_IsArray(root) || cJSON_IsObject(root);
    if (!root || (nested && root->valueint == LOST_A_VALUE))
        return err_set(e, ERR_SYS, "out of memory; close other programs or choose a smaller job");
    const cJSON *m;
    cJSON_ArrayForEach(m, root) TRY(doc_check(m, e));
    return 0;
}

struct printer {
    struct buf *out;
    bool tight; /* no blanks */
    struct err *e;
};

/* Appends the shortest decimal form, of at least nine digits, that reads back as the same
 * number. */
static void put_number(struct buf *out, double v) {
    static const int digits[] = {9, 15, 17};
    char text[32];
    if (v == floor(v) && fabs(v) <= 0x1p53) {
        buf_fmt(out, "%.0f", v);
        return;
    }
    for (size_t i = 0; i < COUNT_OF(digits); i++) {
        snprintf(text, sizeof text, "%.*g", digits[i], v);
        if (strtod(text, NULL) == v) break;
    }
    buf_str(out, text);
}

/* Writes a string, number, truth value or null. */
static int put_scalar(const struct printer *p, const cJSON *v) {
    const size_t n = cJSON_IsString(v) || cJSON_IsRaw(v) ? strlen(v->valuestring) : 32;
    TRY(buf_try_reserve(p->out, 6 * n + 2, "the text of a document", p->e));
    if (cJSON_IsString(v))
        json_quote(p->out, v->valuestring, n);
    else if (cJSON_IsRaw(v))
        buf_str(p->out, v->valuestring);
    else if (cJSON_IsNumber(v))
        put_number(p->out, v->valuedouble);
    else
        buf_str(p->out, cJSON_IsTrue(v) ? "true" : cJSON_IsFalse(v) ? "false" : "null");
    return 0;
}

/* Writes the name of member m and a colon; writes nothing for an item of a list. */
static int put_name(const struct printer *p, const cJSON *parent, const cJSON *m) {
    if (!cJSON_IsObject(parent)) return 0;
    const size_t n = strlen(m->string);
    TRY(buf_try_reserve(p->out, 6 * n + 4, "the text of a document", p->e));
    json_quote(p->out, m->string, n);
    buf_str(p->out, p->tight ? ":" : ": ");
    return 0;
}

/* Appends a value on one line; sets *fits to whether it ends before byte `last` of the buffer. */
static int put_line(const struct printer *p, const cJSON *v, size_t last, bool *fits) {
    const bool is_array = cJSON_IsArray(v);
    if (!is_array && !cJSON_IsObject(v)) {
        TRY(put_scalar(p, v));
        *fits = p->out->len <= last;
        return 0;
    }
    buf_chr(p->out, is_array ? '[' : '{');
    for (const cJSON *m = v->child; m && *fits; m = m->next) {
        if (m != v->child) buf_str(p->out, p->tight ? "," : ", ");
        *fits = p->tight || !is_array || !cJSON_IsObject(m);
        TRY(put_name(p, v, m));
        TRY(put_line(p, m, last, fits));
    }
    buf_chr(p->out, is_array ? ']' : '}');
    *fits = *fits && p->out->len <= last;
    return 0;
}

/* Returns whether v is a list of numbers, which stays on one line regardless of its length. */
static bool is_series(const cJSON *v) {
    const cJSON *m;
    if (!cJSON_IsArray(v)) return false;
    cJSON_ArrayForEach(m, v) if (!cJSON_IsNumber(m)) return false;
    return true;
}

static void new_line(const struct printer *p, int depth) {
    buf_fmt(p->out, "\n%*s", INDENT * depth, "");
}

/* Appends a value whose line began at byte `from`. */
static int put_value(const struct printer *p, const cJSON *v, int depth, size_t from) {
    const bool is_array = cJSON_IsArray(v);
    const size_t at = p->out->len;
    bool fits = true;
    if (depth || is_series(v) || !v->child) {
        TRY(put_line(p, v, is_series(v) ? SIZE_MAX : from + LINE - 1, &fits));
        if (fits || (!is_array && !cJSON_IsObject(v))) return 0;
        p->out->len = at;
    }
    buf_chr(p->out, is_array ? '[' : '{');
    for (const cJSON *m = v->child; m; m = m->next) {
        new_line(p, depth + 1);
        const size_t line = p->out->len - (size_t)(INDENT * (depth + 1));
        TRY(put_name(p, v, m));
        TRY(put_value(p, m, depth + 1, line));
        if (m->next) buf_chr(p->out, ',');
    }
    new_line(p, depth);
    buf_chr(p->out, is_array ? ']' : '}');
    return 0;
}

int doc_print(const cJSON *root, struct buf *out, struct err *e) {
    const struct printer p = {out, false, e};
    TRY(doc_check(root, e));
    return put_value(&p, root, 0, out->len);
}

int doc_print_line(const cJSON *root, struct buf *out, struct err *e) {
    const struct printer p = {out, true, e};
    bool fits = true;
    TRY(doc_check(root, e));
    return put_line(&p, root, SIZE_MAX, &fits);
}

int doc_write(const cJSON *root, const char *path, bool overwrite, struct err *e) {
    struct buf b = {0};
    int rc = doc_print(root, &b, e);
    buf_chr(&b, '\n');
    if (!rc) rc = out_write_file(path, b.data, b.len, overwrite, e);
    buf_release(&b);
    return rc;
}
