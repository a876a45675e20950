// SPDX-License-Identifier: MIT
/* work/kv_text.c - formatting of GGUF metadata values. */
#include "work/kv_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"

enum { SHORT_TEXT = 64, SHORT_ELEMS = 8 };

/* Appends a text as a JSON string: the quotes show where it ends, and the escapes keep control
 * bytes from the terminal. */
static void add_text(struct buf *b, const char *s, uint64_t len, bool all) {
    size_t n = (size_t)len;
    if (!all && n > SHORT_TEXT) {
        n = SHORT_TEXT - 3;
        while (n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80) n--;
    }
    json_quote(b, s, n);
    if (n < len) buf_fmt(b, "... (%llu bytes)", (unsigned long long)len);
}
/* Appends a number with the fewest digits from which the same value is read back. */
static void add_float(struct buf *b, double v, bool single) {
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (single ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v) break;
    }
    buf_str(b, text);
}
/* Appends element i of a numeric key as text; json: as a number of JSON, or null. */
static void add_scalar(struct buf *b, const struct gguf_kv *kv, uint64_t i, bool json) {
    const bool is_float = kv->elem == GV_F32 || kv->elem == GV_F64;
    if (json && is_float && !isfinite(gguf_kv_f64(kv, i)))
        buf_str(b, "null");
    else if (is_float)
        add_float(b, gguf_kv_f64(kv, i), kv->elem == GV_F32);
    else if (kv->elem == GV_BOOL)
        buf_str(b, gguf_kv_i64(kv, i) ? "true" : "false");
    else if (kv->elem == GV_U64)
        buf_fmt(b, "%llu", (unsigned long long)gguf_kv_i64(kv, i));
    else
        buf_fmt(b, "%lld", (long long)gguf_kv_i64(kv, i));
}
/* Replaces b's text with the value; all: nothing is cut; json: as valid JSON. */
static void write_value(struct buf *b, const struct gguf_kv *kv, bool all, bool json) {
    buf_reset(b);
    if (kv->type == GV_STR) {
        add_text(b, (const char *)kv->data, kv->count, all);
        return;
    }
    if (kv->type != GV_ARR) {
        add_scalar(b, kv, 0, json);
        return;
    }
    const uint8_t *pos = kv->data;
    uint64_t n = all || kv->count <= SHORT_ELEMS ? kv->count : SHORT_ELEMS;
    buf_chr(b, '[');
    for (uint64_t i = 0; i < n; i++) {
        if (!all && b->len > SHORT_TEXT) n = i; /* the line is long enough */
        if (i == n) break;
        if (i) buf_str(b, ", ");
        if (kv->elem == GV_STR) {
            const char *s;
            uint64_t len;
            gguf_kv_str_next(kv, &pos, &s, &len);
            add_text(b, s, len, all);
        } else {
            add_scalar(b, kv, i, json);
        }
    }
    buf_str(b, n < kv->count ? ", ...]" : "]");
    if (n < kv->count) buf_fmt(b, " (%llu)", (unsigned long long)kv->count);
}

void kv_value(struct buf *b, const struct gguf_kv *kv, bool all) {
    write_value(b, kv, all, false);
}

void kv_json(struct buf *b, const struct gguf_kv *kv) {
    write_value(b, kv, true, true);
}

void kv_type(char out[32], const struct gguf_kv *kv) {
    bool arr = kv->type == GV_ARR;
    snprintf(out, 32, "%s%s%s", gguf_vtype_name(kv->type), arr ? " " : "",
             arr ? gguf_vtype_name(kv->elem) : "");
}
