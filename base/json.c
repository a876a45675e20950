// SPDX-License-Identifier: MIT
/* base/json.c - JSON parser and construction of values.
 *
 * Parsing is one pass of recursive descent that creates nodes in an arena. Siblings form a list,
 * strings are decoded and end with a NUL, numbers keep their spelling. At the end of an object its
 * member names are checked for duplicates; a hash table keeps this linear, since tokenizer.json has
 * objects of 250 000 members. */
#include "base/json_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/mem.h"

struct doc { /* a parsed document, freed by json_free */
    struct json root;
    struct arena arena;
};

int json_utf8(const unsigned char *p, size_t n) {
    unsigned c = p[0];
    if (c < 0x80) return 1;
    int len = c >= 0xc2 && c <= 0xdf ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
    if (!len) return -1;
    unsigned lo = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80; /* Overlong forms are not allowed. */
    /* Surrogates and values above 10ffff are not allowed. */
    unsigned hi = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    for (int i = 1; i < len; i++) {
        if ((size_t)i >= n || p[i] < lo || p[i] > hi) return -i;
        lo = 0x80, hi = 0xbf;
    }
    return len;
}

/* ---- reading -------------------------------------------------------------------------------- */

struct reader {
    struct arena *a;
    const char *text, *s, *end; /* s: the next byte */
    struct json_opts o;
    int depth, max_depth;
    const char *why;   /* reason of the failure */
    const char *twice; /* name that occurs twice */
    struct err *e;
    int rc; /* ERR_SYS: *e is set, memory ran out */
};

/* Sets the reason, a text that must remain valid, and returns false. */
static bool fail_with(struct reader *r, const char *why) {
    r->why = why;
    return false;
}

/* Sets the reason for an unexpected or missing character and returns false. */
static bool unexpected(struct reader *r) {
    return fail_with(r, r->s >= r->end ? "the JSON text ends too early"
                        : *r->s == 0   ? "NUL byte in JSON"
                                       : "not valid JSON");
}

/* Reserves space in the arena for a string of n bytes. Returns false with r->rc set on failure. */
static bool room(struct reader *r, size_t n) {
    r->rc = arena_reserve(r->a, n + 1, "a text in JSON", r->e);
    return !r->rc;
}

/* Returns the next byte, 0 at the end. */
static char peek(const struct reader *r) {
    return r->s < r->end ? *r->s : 0;
}

static void skip_blanks(struct reader *r) {
    while (r->s < r->end && (*r->s == ' ' || *r->s == '\t' || *r->s == '\r' || *r->s == '\n'))
        r->s++;
}

/* Returns the value of a hex digit, -1 for other characters. */
static int hex_digit(char ch) {
    if (ch >= '0' && ch <= '9') return ch - '0';
    ch |= 32;
    return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

/* Returns the value of \uXXXX at s, or -1 if it is invalid. */
static int32_t hex4(const char *s, const char *end) {
    int32_t v = 0;
    if (end - s < 6 || s[0] != '\\' || s[1] != 'u') return -1;
    for (int i = 2; i < 6; i++) {
        const int d = hex_digit(s[i]);
        if (d < 0) return -1;
        v = v << 4 | d;
    }
    return v;
}

size_t json_escape(const char *s, const char *end, uint32_t *cp) {
    static const char map[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    if (end - s < 2) return 0;
    for (size_t i = 0; map[i]; i += 2) {
        if (map[i] != s[1]) continue;
        *cp = (uint32_t)map[i + 1];
        return 2;
    }
    const int32_t high = hex4(s, end);
    if (high < 0) return 0;
    *cp = (uint32_t)high;
    const int32_t low = high >= 0xd800 && high < 0xdc00 ? hex4(s + 6, end) : -1;
    if (low < 0xdc00 || low >= 0xe000) return 6;
    *cp = 0x10000 + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
    return 12;
}

/* Writes a code point as UTF-8, a surrogate as three bytes; returns the length. */
static size_t put_utf8(uint32_t cp, char *to) {
    const unsigned lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const size_t n = cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; cp >>= 6) to[i] = (char)(0x80 | (cp & 0x3f));
    to[0] = (char)(lead[n == 1 ? 0 : n] | cp);
    return n;
}

/* Checks the string after the quote at r->s, finds its end, and notes whether it has escapes. */
static bool string_end(struct reader *r, const char **end, bool *escaped) {
    *escaped = false;
    for (const char *p = r->s + 1; p < r->end;) {
        r->s = p;
        const unsigned char ch = (unsigned char)*p;
        if (ch == '"') {
            *end = p;
            return true;
        }
        if (ch < 0x20) return fail_with(r, "control character in a string (it must be escaped)");
        if (ch == '\\') {
            uint32_t cp;
            const size_t n = json_escape(p, r->end, &cp);
            if (!n && r->end - p < 2) break;
            if (!n) return fail_with(r, "not valid JSON: an unknown escape");
            const bool lenient = r->o.any_text || r->o.mend;
            if (!lenient && !r->o.nul && cp == 0)
                return fail_with(r, "a string holds \\u0000, which is not supported");
            if (!lenient && cp >= 0xd800 && cp < 0xe000)
                return fail_with(r, "not valid JSON: half of a surrogate pair");
            *escaped = true;
            p += n;
        } else if (ch < 0x80 || r->o.any_text) {
            p++;
        } else {
            const int n = json_utf8((const unsigned char *)p, (size_t)(r->end - p));
            if (n < 0) return fail_with(r, "invalid UTF-8 in a string");
            p += n;
        }
    }
    r->s = r->end;
    return fail_with(r, "the text ends inside a string");
}

/* Reads a quoted string; sets *text to its value and *raw to the text as written. Returns false
 * with r->why or r->rc set on failure. */
static bool read_string(struct reader *r, const char **text, uint32_t *n_text, const char **raw,
                        uint32_t *n_raw) {
    const char *end, *from = r->s + 1;
    bool escaped;
    if (!string_end(r, &end, &escaped)) return false;
    r->s = end + 1;
    if (!room(r, (size_t)(end - from))) return false;
    char *to = arena_alloc(r->a, (size_t)(end - from) + 1);
    size_t n = 0;
    *text = to;
    *raw = from;
    *n_raw = (uint32_t)(end - from);
    for (const char *p = from; escaped && p < end;) {
        uint32_t cp;
        if (*p != '\\') {
            to[n++] = *p++;
            continue;
        }
        p += json_escape(p, end, &cp);
        if (r->o.mend && cp >= 0xd800 && cp < 0xe000) cp = 0xfffd;
        if ((r->o.mend || r->o.nul) && !cp) {
            memcpy(to + n, "\xc0\x80", 2);
            n += 2;
            continue;
        }
        n += put_utf8(cp, to + n);
    }
    if (!escaped) memcpy(to, from, n = *n_raw);
    *n_text = (uint32_t)n;
    return true;
}

/* Returns the first position at or after s that has no digit, or end. */
static const char *skip_digits(const char *s, const char *end) {
    while (s < end && *s >= '0' && *s <= '9') s++;
    return s;
}

/* Reads the longest number at r->s: 1 from "1.x". Returns false with r->why or r->rc set on
 * failure. */
static bool number(struct reader *r, struct json *v) {
    const char *p = r->s + (*r->s == '-'), *from = p;
    p = skip_digits(from, r->end);
    if (p == from || (*from == '0' && p > from + 1)) {
        r->s = p > from ? from + 1 : from;
        return unexpected(r);
    }
    if (p < r->end && *p == '.' && skip_digits(p + 1, r->end) > p + 1)
        p = skip_digits(p + 1, r->end);
    if (p < r->end && (*p | 32) == 'e') {
        const char *k = p + 1;
        if (k < r->end && (*k == '+' || *k == '-')) k++;
        if (skip_digits(k, r->end) > k) p = skip_digits(k, r->end);
    }
    if (!room(r, (size_t)(p - r->s))) return false;
    v->type = JSON_NUM;
    v->n_text = (uint32_t)(p - r->s);
    v->text = arena_strndup(r->a, r->s, v->n_text);
    v->num = strtod(v->text, NULL);
    r->s = p;
    return true;
}

/* Reads the word w and sets the type and truth value of v. Returns false if another word is
 * next. */
static bool read_word(struct reader *r, const char *w, struct json *v, enum json_type t,
                      bool truth) {
    const size_t n = strlen(w);
    for (size_t i = 0; i < n; i++, r->s++)
        if (peek(r) != w[i]) return fail_with(r, "not valid JSON");
    v->type = t;
    v->truth = truth;
    return true;
}

/* Reads NaN, Infinity or -Infinity, as Python writes non-finite numbers. Returns false if another
 * word is next. */
static bool not_finite(struct reader *r, struct json *v) {
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        const size_t n = strlen(words[i]);
        if ((size_t)(r->end - r->s) < n || memcmp(r->s, words[i], n) != 0) continue;
        v->type = JSON_NUM;
        v->text = words[i];
        v->n_text = (uint32_t)n;
        v->num = strtod(words[i], NULL);
        r->s += n;
        return true;
    }
    return false;
}

static bool same_name(const struct json *a, const struct json *b) {
    return a->n_name == b->n_name && memcmp(a->name, b->name, a->n_name) == 0;
}

/* Returns an earlier member of obj with the name of m; NULL: it is the first. */
static struct json *earlier(struct json *obj, struct json *m) {
    if (obj->names) return json_names_add(obj, m);
    struct json *k = obj->child;
    while (k != m && !same_name(k, m)) k = k->next;
    return k == m ? NULL : k;
}

/* Gives `to` the value of `from`; `to` keeps its name and its place in the list. */
static void take_value(struct json *to, const struct json *from) {
    struct json old = *to;
    *to = *from;
    to->next = old.next;
    to->name = old.name;
    to->raw_name = old.raw_name;
    to->n_name = old.n_name;
    to->n_raw_name = old.n_raw_name;
}

/* Handles repeated member names: an error, unless last_wins or first_wins is set; then the chosen
 * value takes the place of the first. False: sets r->why. */
static bool check_names(struct reader *r, struct json *obj) {
    struct json *before = NULL;
    if (obj->n_child > FEW_MEMBERS) {
        const size_t n = json_names_size(obj->n_child);
        if ((r->rc = arena_reserve(r->a, n, "the names of a JSON object", r->e))) return false;
        json_names_new(r->a, obj, obj->n_child);
    }
    for (struct json *m = obj->child; m; m = m->next) {
        struct json *first = earlier(obj, m);
        if (!first) {
            before = m;
            continue;
        }
        r->twice = m->name;
        if (!r->o.last_wins && !r->o.first_wins) break;
        if (r->o.last_wins) take_value(first, m);
        if (r->o.twice) *r->o.twice = true;
        before->next = m->next;
        obj->n_child--;
    }
    obj->last = before;
    return r->o.last_wins || r->o.first_wins || !r->twice || fail_with(r, "a name occurs twice");
}

static bool read_value(struct reader *r, struct json *v);

static void append_child(struct json *parent, struct json *v) {
    if (parent->last)
        parent->last->next = v;
    else
        parent->child = v;
    parent->last = v;
    parent->n_child++;
}

/* Reads a member's name and the colon after it. Returns false with r->why or r->rc set on
 * failure. */
static bool member_name(struct reader *r, struct json *m) {
    if (peek(r) != '"') return unexpected(r);
    if (!read_string(r, &m->name, &m->n_name, &m->raw_name, &m->n_raw_name)) return false;
    skip_blanks(r);
    if (peek(r) != ':') return unexpected(r);
    r->s++;
    return true;
}

/* Reads a list or object up to `close`. Returns false with r->why or r->rc set on failure. */
static bool read_items(struct reader *r, struct json *v, char close) {
    v->type = close == ']' ? JSON_ARR : JSON_OBJ;
    r->s++;
    skip_blanks(r);
    if (peek(r) != close) {
        for (;;) {
            struct json *m = arena_alloc(r->a, sizeof *m);
            skip_blanks(r);
            if (close == '}' && !member_name(r, m)) return false;
            if (!read_value(r, m)) return false;
            append_child(v, m);
            skip_blanks(r);
            if (peek(r) != ',') break;
            r->s++;
        }
        if (peek(r) != close) return unexpected(r);
    }
    r->s++;
    return v->type == JSON_ARR || check_names(r, v);
}

/* Reads one value into v. Returns false with r->why or r->rc set on failure. */
static bool read_value(struct reader *r, struct json *v) {
    skip_blanks(r);
    const char ch = peek(r);
    if ((r->rc = mem_check(r->e))) return false;
    if (ch == '{' || ch == '[') {
        if (++r->depth > r->max_depth) return false; /* set_parse_error() sets the error. */
        if (!read_items(r, v, ch == '{' ? '}' : ']')) return false;
        r->depth--;
        return true;
    }
    if (ch == '"') {
        v->type = JSON_STR;
        return read_string(r, &v->text, &v->n_text, &v->raw, &v->n_raw);
    }
    if (r->o.python && not_finite(r, v)) return true;
    if (ch == '-' || (ch >= '0' && ch <= '9')) return number(r, v);
    if (ch == 't') return read_word(r, "true", v, JSON_BOOL, true);
    if (ch == 'f') return read_word(r, "false", v, JSON_BOOL, false);
    if (ch == 'n') return read_word(r, "null", v, JSON_NULL, false);
    return unexpected(r);
}

/* Sets ERR_DATA with the line and column of the failure. */
static int set_parse_error(const struct reader *r, const char *what, struct err *e) {
    unsigned long long line = 1, col = 1;
    if (r->twice && !r->o.last_wins && !r->o.first_wins)
        return err_set(e, ERR_DATA, "%s: the name \"%.200s\" occurs twice in one object", what,
                       r->twice);
    for (const char *p = r->text; p < r->s; p++) {
        col++;
        if (*p == '\n') line++, col = 1;
    }
    if (r->depth > r->max_depth)
        return err_set(e, ERR_DATA, "%s: line %llu, column %llu: nested deeper than %d levels",
                       what, line, col, r->max_depth);
    return err_set(e, ERR_DATA, "%s: line %llu, column %llu: %s", what, line, col, r->why);
}

/* Parses into *v, which must be zeroed. */
static int parse(struct json *v, struct arena *a, const char *text, size_t len,
                 const struct json_opts *o, const char *what, size_t *used, struct err *e) {
    struct reader r = {.a = a, .text = text, .s = text, .end = text + len, .o = *o, .e = e};
    r.max_depth = o->max_depth ? o->max_depth : (int)limit_of(LIM_JSON_DEPTH);
    if (len > UINT32_MAX)
        return err_set(e, ERR_DATA, "%s: %zu bytes of JSON are too many", what, len);
    if (!read_value(&r, v)) return r.rc ? r.rc : set_parse_error(&r, what, e);
    if (used) {
        *used = (size_t)(r.s - text);
        return 0;
    }
    skip_blanks(&r);
    if (r.s == r.end) return 0;
    r.why = *r.s ? "something follows the JSON value" : "NUL byte in JSON";
    return set_parse_error(&r, what, e);
}

int json_parse_in(const struct json **out, struct arena *a, const char *text, size_t len,
                  const struct json_opts *o, const char *what, size_t *used, struct err *e) {
    struct json *v = arena_alloc(a, sizeof *v);
    *out = NULL;
    TRY(parse(v, a, text, len, o, what, used, e));
    *out = v;
    return 0;
}

/* Parses a text into a new document; *out is NULL on error. */
static int parse_doc(struct json **out, const char *text, size_t len, const struct json_opts *o,
                     const char *what, struct err *e) {
    struct doc *d = xcalloc(1, sizeof *d);
    *out = NULL;
    arena_init(&d->arena);
    int rc = parse(&d->root, &d->arena, text, len, o, what, NULL, e);
    if (rc) {
        json_free(&d->root);
        return rc;
    }
    *out = &d->root;
    return 0;
}

static const struct json_opts strict, python = {.python = true, .last_wins = true};
int json_parse(struct json **out, const char *text, size_t len, const char *what, struct err *e) {
    return parse_doc(out, text, len, &strict, what, e);
}
int json_parse_py(struct json **out, const char *text, size_t len, const char *what,
                  struct err *e) {
    return parse_doc(out, text, len, &python, what, e);
}

int json_parse_mend(struct json **out, const char *text, size_t len, const char *what,
                    struct err *e) {
    static const struct json_opts mend = {.mend = true};
    return parse_doc(out, text, len, &mend, what, e);
}

size_t json_unmend(char *s, size_t n) {
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        const bool nul = i + 1 < n && memcmp(s + i, "\xc0\x80", 2) == 0;
        s[to++] = nul ? 0 : s[i];
        i += nul;
    }
    return to;
}

/* Rejects UTF-16, which Windows programs call "Unicode"; UTF-8 with a byte order mark is fine. */
static int check_utf16(const char *text, size_t len, const char *path, struct err *e) {
    const bool mark = len >= 2 && (!memcmp(text, "\xff\xfe", 2) || !memcmp(text, "\xfe\xff", 2));
    if (!mark && !(len >= 2 && (!text[0] || !text[1]))) return 0;
    return err_set(e, ERR_DATA, "%s is UTF-16 text: save it as UTF-8", path);
}

/* Reads and parses a file, skipping a byte-order mark; *out is NULL on error. */
static int read_doc(struct json **out, const char *path, uint64_t max_bytes,
                    const struct json_opts *o, struct err *e) {
    char *text;
    size_t len;
    *out = NULL;
    TRY(io_read_file(&text, &len, path, max_bytes, e));
    const size_t mark = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    int rc = check_utf16(text, len, path, e);
    if (!rc) rc = parse_doc(out, text + mark, len - mark, o, path, e);
    free(text);
    return rc;
}
int json_read(struct json **out, const char *path, uint64_t max_bytes, struct err *e) {
    return read_doc(out, path, max_bytes, &strict, e);
}
int json_read_py(struct json **out, const char *path, uint64_t max_bytes, struct err *e) {
    return read_doc(out, path, max_bytes, &python, e);
}
int json_read_nul(struct json **out, const char *path, uint64_t max_bytes, struct err *e) {
    static const struct json_opts opts = {.python = true, .last_wins = true, .nul = true};
    return read_doc(out, path, max_bytes, &opts, e);
}

void json_free(struct json *root) {
    struct doc *d = (struct doc *)root; /* The root is the first member of its document. */
    if (!d) return;
    arena_release(&d->arena);
    free(d);
}

/* ---- construction ---------------------------------------------------------------------------- */

struct json *json_new(struct arena *a, enum json_type t) {
    struct json *j = arena_alloc(a, sizeof *j);
    j->type = t;
    return j;
}

struct json *json_new_bool(struct arena *a, bool truth) {
    struct json *j = json_new(a, JSON_BOOL);
    j->truth = truth;
    return j;
}

struct json *json_new_str(struct arena *a, const char *s, size_t n) {
    struct json *j = json_new(a, JSON_STR);
    j->text = arena_strndup(a, s, n);
    j->n_text = (uint32_t)n;
    return j;
}

void json_push(struct arena *a, struct json *arr, const struct json *v) {
    static const struct json none;
    struct json *m = arena_alloc(a, sizeof *m);
    take_value(m, v ? v : &none);
    append_child(arr, m);
}

void json_put(struct arena *a, struct json *obj, const char *name, size_t n, const struct json *v) {
    struct json *m = obj->child;
    if (obj->names)
        m = json_names_find(obj, name, n);
    else
        while (m && (m->n_name != n || memcmp(m->name, name, n) != 0)) m = m->next;
    if (m) {
        take_value(m, v);
        return;
    }
    json_push(a, obj, v);
    obj->last->name = arena_strndup(a, name, n);
    obj->last->n_name = (uint32_t)n;
    if (obj->n_child <= FEW_MEMBERS) return;
    if (obj->names && !json_names_full(obj)) {
        json_names_add(obj, obj->last);
        return;
    }
    json_names_new(a, obj, 2 * obj->n_child);
    for (m = obj->child; m; m = m->next) json_names_add(obj, m);
}

/* ---- text of values -------------------------------------------------------------------------- */

const char *json_skip_ws(const char *s, const char *end) {
    while (s < end && strchr(" \t\r\n", *s)) s++;
    return s;
}
