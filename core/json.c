// SPDX-License-Identifier: MIT
/* core/json.c - JSON in (over cJSON) and out.
 *
 * cJSON is lenient and recursive, so the text is scanned first: depth at most 64, valid UTF-8, no
 * control characters and no \u0000 in strings (cJSON would cut the string there). After parsing,
 * member names of every object must differ; a hash set keeps that linear, for tokenizer.json has
 * objects with 250 000 members. json_get is a linear search: for big objects iterate instead. A
 * struct json is a cJSON node under another name. */
#include "core/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/io.h"
#include "core/limits.h"
#include "core/mem.h"

enum { DEPTH_MAX = 64, FEW_MEMBERS = 8 };

static const cJSON *node(const struct json *j) {
    return (const cJSON *)(const void *)j;
}
static const struct json *wrap(const cJSON *c) {
    return (const struct json *)(const void *)c;
}

/* Length of the valid UTF-8 sequence at p; or minus the bytes of its broken prefix (at least 1). */
static int utf8_len(const unsigned char *p, size_t n) {
    unsigned c = p[0];
    if (c < 0x80) return 1;
    int len = c >= 0xc2 && c <= 0xdf ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
    if (!len) return -1;
    unsigned lo = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80; /* no overlong forms */
    unsigned hi = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf; /* no surrogates, <= 10ffff */
    for (int i = 1; i < len; i++) {
        if ((size_t)i >= n || p[i] < lo || p[i] > hi) return -i;
        lo = 0x80, hi = 0xbf;
    }
    return len;
}

/* ---- reading -------------------------------------------------------------------------------- */

static int bad(const char *what, const char *text, size_t at, const char *why, struct err *e) {
    unsigned long long line = 1, col = 1;
    for (size_t i = 0; i < at; i++) {
        col++;
        if (text[i] == '\n') line++, col = 1;
    }
    return err_set(e, ERR_DATA, "%s: line %llu, column %llu: %s", what, line, col, why);
}

/* *at is behind the opening quote on entry and behind the closing one on return. */
static const char *scan_string(const char *text, size_t len, size_t *at) {
    const unsigned char *p = (const unsigned char *)text;
    for (size_t i = *at; i < len;) {
        *at = i;
        if (p[i] == '"') {
            *at = i + 1;
            return NULL;
        }
        if (p[i] < 0x20) return "control character in a string (it must be escaped)";
        if (p[i] == '\\') {
            if (len - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)
                return "a string holds \\u0000, which is not supported";
            i += 2;
        } else if (p[i] < 0x80)
            i++;
        else {
            int n = utf8_len(p + i, len - i);
            if (n < 0) return "invalid UTF-8 in a string";
            i += (size_t)n;
        }
    }
    return "the text ends inside a string";
}

static int scan(const char *text, size_t len, const char *what, struct err *e) {
    int depth = 0;
    for (size_t i = 0; i < len;) {
        char c = text[i++];
        if (c == '"') {
            const char *why = scan_string(text, len, &i);
            if (why) return bad(what, text, i, why, e);
        } else if (c == '[' || c == '{') {
            if (++depth > (int)limit_of(LIM_JSON_DEPTH))
                return bad(what, text, i - 1, "nested deeper than 64 levels", e);
        } else if (c == ']' || c == '}')
            depth--;
        else if (c == 0)
            return bad(what, text, i - 1, "NUL byte in JSON", e);
    }
    return 0;
}

static const char *repeated_hashed(const cJSON *obj, size_t n) {
    struct strmap *m = strmap_new(n);
    const char *found = NULL;
    for (const cJSON *c = obj->child; c && !found; c = c->next)
        if (!strmap_add(m, c->string, strlen(c->string), 0)) found = c->string;
    strmap_free(m);
    return found;
}

/* A name that occurs twice in one object, anywhere below c; NULL if none. Depth <= 64. */
static const char *repeated_name(const cJSON *c) {
    size_t n = 0;
    for (const cJSON *m = c->child; m; m = m->next, n++) {
        const char *found = repeated_name(m);
        if (found) return found;
    }
    if (!cJSON_IsObject(c)) return NULL;
    if (n > FEW_MEMBERS) return repeated_hashed(c, n);
    for (const cJSON *a = c->child; a; a = a->next)
        for (const cJSON *b = a->next; b; b = b->next)
            if (strcmp(a->string, b->string) == 0) return a->string;
    return NULL;
}

/* cJSON takes its memory from xmalloc: when it is out, that is no fault of the text. */
static void use_xmalloc(void) {
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = xmalloc, .free_fn = free});
}

/* text[len] is NUL: cJSON is given it too, since some versions look one byte past the end. */
static int parse(struct json **out, const char *text, size_t len, const char *what, struct err *e) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    *out = NULL;
    pthread_once(&once, use_xmalloc);
    TRY(scan(text, len, what, e));
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(text, len + 1, &end, 0);
    size_t at = end && end >= text ? (size_t)(end - text) : 0;
    if (at > len) at = len;
    if (!root)
        return bad(what, text, at, at == len ? "the JSON text ends too early" : "not valid JSON",
                   e);
    int rc = 0;
    while (at < len && strchr(" \t\r\n", text[at])) at++;
    const char *twice = at < len ? NULL : repeated_name(root);
    if (at < len)
        rc = bad(what, text, at, "something follows the JSON value", e);
    else if (twice)
        rc =
            err_set(e, ERR_DATA, "%s: the name \"%.200s\" occurs twice in one object", what, twice);
    if (rc) {
        cJSON_Delete(root);
        return rc;
    }
    *out = (struct json *)(void *)root;
    return 0;
}

int json_parse(struct json **out, const char *text, size_t len, const char *what, struct err *e) {
    struct buf b = {0};
    *out = NULL;
    buf_add(&b, text, len);
    int rc = parse(out, b.data, len, what, e);
    buf_release(&b);
    return rc;
}

int json_read(struct json **out, const char *path, uint64_t max_bytes, struct err *e) {
    char *text;
    size_t len;
    *out = NULL;
    TRY(io_read_file(&text, &len, path, max_bytes, e));
    int rc = parse(out, text, len, path, e);
    free(text);
    return rc;
}

void json_free(struct json *root) {
    cJSON_Delete((cJSON *)(void *)root);
}

enum json_type json_type(const struct json *j) {
    const cJSON *c = node(j);
    if (!c || cJSON_IsNull(c)) return JSON_NULL;
    if (cJSON_IsBool(c)) return JSON_BOOL;
    if (cJSON_IsNumber(c)) return JSON_NUM;
    if (cJSON_IsString(c)) return JSON_STR;
    return cJSON_IsArray(c) ? JSON_ARR : JSON_OBJ;
}

const struct json *json_get(const struct json *obj, const char *name) {
    if (json_type(obj) != JSON_OBJ) return NULL;
    for (const cJSON *c = node(obj)->child; c; c = c->next)
        if (strcmp(c->string, name) == 0) return wrap(c);
    return NULL;
}

const struct json *json_first(const struct json *j) {
    return j ? wrap(node(j)->child) : NULL;
}

const struct json *json_next(const struct json *child) {
    return child ? wrap(node(child)->next) : NULL;
}

const char *json_name(const struct json *child) {
    const char *name = child ? node(child)->string : NULL;
    return child && !name ? "" : name;
}

int64_t json_len(const struct json *j) {
    int64_t n = 0;
    for (const struct json *c = json_first(j); c; c = json_next(c)) n++;
    return n;
}

const char *json_str(const struct json *j) {
    return json_type(j) == JSON_STR ? node(j)->valuestring : NULL;
}

double json_num(const struct json *j, double otherwise) {
    return json_type(j) == JSON_NUM ? node(j)->valuedouble : otherwise;
}

bool json_bool(const struct json *j, bool otherwise) {
    return json_type(j) == JSON_BOOL ? cJSON_IsTrue(node(j)) != 0 : otherwise;
}

bool json_equal(const struct json *a, const struct json *b) {
    enum json_type t = json_type(a);
    if (t != json_type(b)) return false;
    if (t == JSON_BOOL) return json_bool(a, false) == json_bool(b, false);
    if (t == JSON_NUM) return json_num(a, 0) == json_num(b, 0);
    if (t == JSON_STR) return strcmp(json_str(a), json_str(b)) == 0;
    if (t == JSON_NULL) return true;
    if (json_len(a) != json_len(b)) return false;
    const struct json *y = json_first(b);
    for (const struct json *x = json_first(a); x; x = json_next(x)) {
        const struct json *other = t == JSON_ARR ? y : json_get(b, json_name(x));
        if (!other || !json_equal(x, other)) return false;
        y = json_next(y);
    }
    return true;
}

void json_write(struct buf *out, const struct json *j) {
    char *text = j ? cJSON_PrintUnformatted(node(j)) : NULL;
    if (j && !text) (void)xmalloc(SIZE_MAX); /* out of memory: the one way to say it */
    buf_str(out, text ? text : "null");
    cJSON_free(text);
}

bool json_i64(const struct json *j, int64_t *out) {
    double v = json_num(j, HUGE_VAL);
    if (!(fabs(v) <= 0x1p53) || v != floor(v)) return false;
    *out = (int64_t)v;
    return true;
}

/* ---- writing -------------------------------------------------------------------------------- */

void json_quote(struct buf *b, const char *s, size_t len) {
    static const char *const short_form[32] = {
        ['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f", ['\r'] = "\\r"};
    const unsigned char *p = (const unsigned char *)s;
    buf_reserve(b, len + 2);
    buf_chr(b, '"');
    for (size_t i = 0; i < len;) {
        int n = utf8_len(p + i, len - i);
        if (n < 0) {
            buf_str(b, "\xef\xbf\xbd");
            i += (size_t)-n;
            continue;
        }
        if (p[i] < 32) {
            const char *form = short_form[p[i]];
            if (form)
                buf_str(b, form);
            else
                buf_fmt(b, "\\u%04x", p[i]);
        } else {
            if (p[i] == '"' || p[i] == '\\') buf_chr(b, '\\');
            buf_add(b, s + i, (size_t)n);
        }
        i += (size_t)n;
    }
    buf_chr(b, '"');
}

void jw_init(struct jw *w, struct buf *b, bool pretty) {
    *w = (struct jw){.b = b, .pretty = pretty};
}

static void new_line(struct jw *w) {
    if (!w->pretty) return;
    buf_chr(w->b, '\n');
    for (int i = 0; i < w->depth; i++) buf_str(w->b, "  ");
}

/* What comes before a value: comma, line, name. */
static void lead(struct jw *w, const char *name) {
    if (w->depth > 0) {
        int d = w->depth - 1;
        if (w->need_comma[d]) buf_chr(w->b, ',');
        w->need_comma[d] = true;
        new_line(w);
        if (!w->is_arr[d]) {
            if (!name) name = "";
            json_quote(w->b, name, strlen(name));
            buf_str(w->b, w->pretty ? ": " : ":");
        }
    }
}

static void open_level(struct jw *w, const char *name, bool is_arr) {
    lead(w, name);
    if (w->depth >= DEPTH_MAX) abort(); /* a bug of ours: levels are written by code, not data */
    w->need_comma[w->depth] = false;
    w->is_arr[w->depth++] = is_arr;
    buf_chr(w->b, is_arr ? '[' : '{');
}

void jw_obj(struct jw *w, const char *name) {
    open_level(w, name, false);
}

void jw_arr(struct jw *w, const char *name) {
    open_level(w, name, true);
}

void jw_end(struct jw *w) {
    if (w->depth <= 0) abort();
    int d = --w->depth;
    if (w->need_comma[d]) new_line(w); /* an empty level stays "{}" */
    buf_chr(w->b, w->is_arr[d] ? ']' : '}');
}

void jw_strn(struct jw *w, const char *name, const char *value, size_t len) {
    lead(w, name);
    json_quote(w->b, value, len);
}

void jw_str(struct jw *w, const char *name, const char *value) {
    if (value)
        jw_strn(w, name, value, strlen(value));
    else
        jw_null(w, name);
}

void jw_i64(struct jw *w, const char *name, int64_t value) {
    lead(w, name);
    buf_fmt(w->b, "%lld", (long long)value);
}

void jw_u64(struct jw *w, const char *name, uint64_t value) {
    lead(w, name);
    buf_fmt(w->b, "%llu", (unsigned long long)value);
}

void jw_num(struct jw *w, const char *name, double value) {
    lead(w, name);
    if (isfinite(value))
        buf_fmt(w->b, "%.9g", value);
    else
        buf_str(w->b, "null");
}

void jw_bool(struct jw *w, const char *name, bool value) {
    lead(w, name);
    buf_str(w->b, value ? "true" : "false");
}

void jw_null(struct jw *w, const char *name) {
    lead(w, name);
    buf_str(w->b, "null");
}

void jw_copy(struct jw *w, const char *name, const struct json *v) {
    int64_t i;
    switch (json_type(v)) {
    case JSON_NULL:
        jw_null(w, name);
        return;
    case JSON_BOOL:
        jw_bool(w, name, json_bool(v, false));
        return;
    case JSON_NUM:
        if (json_i64(v, &i))
            jw_i64(w, name, i);
        else
            jw_num(w, name, json_num(v, 0));
        return;
    case JSON_STR:
        jw_str(w, name, json_str(v));
        return;
    case JSON_ARR:
    case JSON_OBJ:
        if (json_type(v) == JSON_ARR)
            jw_arr(w, name);
        else
            jw_obj(w, name);
        for (const struct json *m = json_first(v); m; m = json_next(m))
            jw_copy(w, json_type(v) == JSON_ARR ? NULL : json_name(m), m);
        jw_end(w);
        return;
    }
}

void jw_raw(struct jw *w, const char *name, const char *json_text) {
    lead(w, name);
    buf_str(w->b, json_text);
}

/* ---- text of values -------------------------------------------------------------------------- */

static bool more(const char *s, const char *end) {
    return end ? s < end : *s != 0;
}

const char *json_skip_ws(const char *s, const char *end) {
    while (more(s, end) && strchr(" \t\r\n", *s)) s++;
    return s;
}

const char *json_skip_value(const char *s, const char *end) {
    int depth = 0;
    do {
        s = json_skip_ws(s, end);
        if (!more(s, end)) break;
        if (*s == '"') {
            for (s++; more(s, end) && *s != '"'; s++)
                if (*s == '\\' && more(s + 1, end)) s++;
            if (more(s, end)) s++;
        } else if (*s == '[' || *s == '{') {
            depth++;
            s++;
        } else if (*s == ']' || *s == '}') {
            depth--;
            s++;
        } else if (*s == ',' || *s == ':') {
            s++;
        } else {
            while (more(s, end) && !strchr(" \t\r\n,:]}[{\"", *s)) s++;
        }
    } while (depth > 0);
    return s;
}
