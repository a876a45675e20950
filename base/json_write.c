// SPDX-License-Identifier: MIT
/* base/json_write.c - writing JSON: quoted strings, parsed values, and the streaming writer. */
#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "base/json.h"

enum { LEVELS = COUNT_OF(((struct jw *)0)->is_arr) };

void json_quote(struct buf *b, const char *s, size_t len) {
    static const char *const short_form[32] = {
        ['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f", ['\r'] = "\\r"};
    const unsigned char *p = (const unsigned char *)s;
    buf_reserve(b, len + 2);
    buf_chr(b, '"');
    for (size_t i = 0; i < len;) {
        size_t k = i; /* end of a run without escapes */
        while (k < len && p[k] >= 32 && p[k] < 0x80 && p[k] != '"' && p[k] != '\\') k++;
        buf_add(b, s + i, k - i);
        if ((i = k) == len) break;
        int n = json_utf8(p + i, len - i);
        if (n < 0 && k + 1 < len && p[k] == 0xc0 && p[k + 1] == 0x80) {
            buf_str(b, "\\u0000");
            i += 2;
            continue;
        }
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

/* Writes a value with the given separators between items and after names. */
static void write_value(struct buf *out, const struct json *j, const char *comma,
                        const char *colon) {
    const enum json_type t = json_type(j);
    size_t n;
    if (t == JSON_NULL) {
        buf_str(out, "null");
    } else if (t == JSON_BOOL) {
        buf_str(out, json_bool(j, false) ? "true" : "false");
    } else if (t == JSON_NUM) {
        buf_str(out, json_num_text(j));
    } else if (t == JSON_STR) {
        const char *s = json_strn(j, &n);
        json_quote(out, s, n);
    } else {
        buf_chr(out, t == JSON_ARR ? '[' : '{');
        for (const struct json *m = json_first(j); m; m = json_next(m)) {
            if (m != json_first(j)) buf_str(out, comma);
            if (t == JSON_OBJ) {
                const char *name = json_namen(m, &n);
                json_quote(out, name, n);
                buf_str(out, colon);
            }
            write_value(out, m, comma, colon);
        }
        buf_chr(out, t == JSON_ARR ? ']' : '}');
    }
}

void json_write(struct buf *out, const struct json *j) {
    write_value(out, j, ",", ":");
}

void json_write_spaced(struct buf *out, const struct json *j) {
    write_value(out, j, ", ", ": ");
}

void jw_init(struct jw *w, struct buf *b, bool pretty) {
    *w = (struct jw){.b = b, .pretty = pretty};
}

/* Starts an indented line; does nothing unless pretty. */
static void new_line(struct jw *w) {
    if (!w->pretty) return;
    buf_chr(w->b, '\n');
    for (int i = 0; i < w->depth; i++) buf_str(w->b, "  ");
}

/* Writes the comma, line break and name before a value. */
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

/* Opens a list or an object. Beyond the maximum depth, values are added to the enclosing level. */
static void open_level(struct jw *w, const char *name, bool is_arr) {
    /* Levels come from code, not from data, so this is a bug in the caller. The values of this
     * level go into the enclosing one. */
    if (w->depth >= LEVELS) {
        w->n_deeper++;
        return;
    }
    lead(w, name);
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
    if (w->n_deeper > 0) {
        w->n_deeper--;
        return;
    }
    if (w->depth <= 0) return;
    int d = --w->depth;
    if (w->need_comma[d]) new_line(w); /* A level without values stays "{}". */
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
    switch (json_type(v)) {
    case JSON_NULL:
        jw_null(w, name);
        return;
    case JSON_BOOL:
        jw_bool(w, name, json_bool(v, false));
        return;
    case JSON_NUM:
        jw_raw(w, name, json_num_text(v));
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
