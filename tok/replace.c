// SPDX-License-Identifier: MIT
/* tok/replace.c - Replace steps of a decoder on streamed text. */
#include "tok/replace.h"

#include <string.h>

#include "text/utf8.h"

/* Drops the first x->at bytes of the text. */
static void drop_done(struct replace_run *x) {
    if (!x->at) return;
    x->text.len -= x->at;
    memmove(x->text.data, x->text.data + x->at, x->text.len + 1);
    x->at = 0;
}

/* Replaces a literal text; more: holds back an end that may be the start of a match. */
static void put_literal(const struct replace *r, struct replace_run *x, bool more,
                        struct buf *out) {
    const size_t len = strlen(r->from);
    while (x->at < x->text.len) {
        const char *s = x->text.data + x->at;
        const size_t left = x->text.len - x->at;
        const bool alike = memcmp(s, r->from, left < len ? left : len) == 0;
        if (alike && left < len && more) break;
        const bool hit = alike && left >= len;
        if (hit)
            buf_str(out, r->to);
        else
            buf_chr(out, *s);
        x->at += hit ? len : 1;
    }
    drop_done(x);
}

/* Emits the text up to `to`. */
static void emit_up_to(struct replace_run *x, size_t to, struct buf *out) {
    buf_add(out, x->text.data + x->at, to - x->at);
    x->at = to;
}

/* Replaces in valid text up to `end`. more: keeps text that may begin a match. */
static void put_valid(const struct replace *r, struct replace_run *x, size_t end, bool more,
                      struct buf *out) {
    size_t start, stop;
    uint32_t cp;
    while (x->at < end) {
        const enum pretok_hit hit =
            pretok_find(x->run, x->text.data, end, x->at, more, &start, &stop);
        emit_up_to(x, hit == PRETOK_NONE ? end : start, out);
        if (hit != PRETOK_MATCH) break;
        buf_str(out, r->to);
        if (stop == start && start < end)
            emit_up_to(x, start + utf8_decode(x->text.data + start, end - start, &cp), out);
        else
            x->at = stop;
    }
}

/* Returns whether s[0..n) can be the first bytes of a longer character. */
static bool may_begin_char(const char *s, size_t n) {
    const unsigned char c = (unsigned char)s[0];
    const size_t len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
    if (c > 0xf4 || n >= len) return false;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)s[i] & 0xc0) != 0x80) return false;
    return true;
}

/* Replaces a regex's matches; more: holds back an end that may be the start of a match. */
static void put_regex(const struct replace *r, struct replace_run *x, bool more, struct buf *out) {
    if (!x->run) x->run = pretok_run_new(r->regex);
    while (x->at < x->text.len) {
        const char *s = x->text.data + x->at;
        const size_t left = x->text.len - x->at, good = utf8_valid_prefix(s, left);
        const bool cut = good < left && !(more && may_begin_char(s + good, left - good));
        put_valid(r, x, x->at + good, more && !cut, out);
        if (!cut) break;
        emit_up_to(x, x->at + 1, out); /* invalid byte */
        drop_done(x);
    }
}

void replace_put(const struct replace *r, struct replace_run *x, const char *s, size_t n, bool more,
                 struct buf *out) {
    buf_add(&x->text, s, n);
    if (r->regex)
        put_regex(r, x, more, out);
    else
        put_literal(r, x, more, out);
}

void replace_run_release(struct replace_run *x) {
    buf_release(&x->text);
    pretok_run_free(x->run);
    memset(x, 0, sizeof *x);
}
