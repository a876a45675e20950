// SPDX-License-Identifier: MIT
/* tok/tok_decode.c - ids to text: the bytes of each token, and the steps of tokenizer.json's
 * decoder on the joined text. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "text/utf8.h"
#include "tok/replace.h"
#include "tok/tok_int.h"

void tok_decode_alphabet(const char *s, size_t n, struct buf *out) {
    while (n > 0) {
        uint32_t cp = 0;
        size_t len = utf8_decode(s, n, &cp);
        int byte = len ? vocab_char_byte(cp) : -1;
        if (len == 0) len = 1;
        if (byte >= 0)
            buf_chr(out, (char)(unsigned char)byte);
        else
            buf_add(out, s, len);
        s += len;
        n -= len;
    }
}

void tok_decode_meta(const char *s, size_t n, struct buf *out) {
    for (size_t i = 0; i < n; i++) {
        if (n - i >= 3 && memcmp(s + i, "\xe2\x96\x81", 3) == 0) {
            buf_chr(out, ' ');
            i += 2;
        } else
            buf_chr(out, s[i]);
    }
}

/* Returns whether this token's own text includes the space that normalization adds. */
static bool is_spaced(const struct tok *t, int64_t id) {
    return t->found && t->found[id] & FOUND_SPACED;
}

/* Appends the token's text; special: even for control tokens. */
static void decode_own(const struct tok *t, int32_t id, bool special, struct buf *out) {
    const char *s = t->v.text[id];
    size_t len = t->v.len[id];
    const bool spaced = is_spaced(t, id);
    int byte;
    switch ((enum tok_type)t->v.role[id]) {
    case TT_CONTROL:
    case TT_UNKNOWN:
        if (special && spaced) buf_chr(out, ' ');
        if (special) buf_add(out, s, len);
        break;
    case TT_UNUSED:
        break;
    case TT_USER:
        if (spaced) buf_chr(out, ' ');
        if (tok_has_meta(t))
            tok_decode_meta(s, len, out);
        else
            buf_add(out, s, len);
        break;
    case TT_BYTE:
        byte = tok_byte_text(s, len);
        if (byte >= 0) buf_chr(out, (char)(unsigned char)byte);
        break;
    case TT_NORMAL:
        if (tok_has_meta(t))
            tok_decode_meta(s, len, out);
        else
            tok_decode_alphabet(s, len, out);
        break;
    }
}

void tok_add_replace(struct tok *t, const char *from, const char *to, bool whole, bool regex) {
    struct replace r = {.from = from, .to = to, .whole = whole};
    struct err e = {0};
    regex = regex && strpbrk(from, PRETOK_SPECIAL); /* otherwise literal text */
    if (t->n_replaces == MAX_REPLACES)
        err_set(&e, ERR_DATA, "there are more than %d", MAX_REPLACES);
    else if (!*from)
        err_set(&e, ERR_DATA, "its pattern is empty");
    else if (!regex || !pretok_new_own(&r.regex, &from, 1, &e))
        t->replace[t->n_replaces++] = r;
    if (e.msg[0]) log_warn("a Replace of the decoder is not applied: %s", e.msg);
}

/* Applies a step to out[start..] in place. */
static void replace_in(const struct replace *r, struct replace_run *x, bool more, size_t start,
                       struct buf *out) {
    struct buf b = {0};
    replace_put(r, x, out->data ? out->data + start : "", out->len - start, more, &b);
    out->len = start;
    if (out->data) out->data[start] = 0;
    if (b.len) buf_add(out, b.data, b.len);
    buf_release(&b);
}

/* Applies the per-token steps to out[start..]. */
static void replace_each(const struct tok *t, size_t start, struct buf *out) {
    for (int i = 0; i < t->n_replaces; i++) {
        if (t->replace[i].whole) continue;
        struct replace_run x = {0};
        replace_in(&t->replace[i], &x, false, start, out);
        replace_run_release(&x);
    }
}

void tok_decode(const struct tok *t, int32_t id, bool special, struct buf *out) {
    const size_t before = out->len;
    if (id < 0 || id >= t->v.n) return;
    decode_own(t, id, special, out);
    if (t->n_replaces && out->len > before && t->v.role[id] != TT_BYTE)
        replace_each(t, before, out);
}

/* ---- whole texts ----------------------------------------------------------------------------- */

struct tok_stream {
    const struct tok *t;
    struct replace_run run[MAX_REPLACES];
};

struct tok_stream *tok_stream_new(const struct tok *t) {
    bool any = false;
    for (int i = 0; i < t->n_replaces; i++) any = any || t->replace[i].whole;
    if (!any) return NULL;
    struct tok_stream *s = xcalloc(1, sizeof *s);
    s->t = t;
    return s;
}

void tok_stream_free(struct tok_stream *s) {
    if (!s) return;
    for (int i = 0; i < MAX_REPLACES; i++) replace_run_release(&s->run[i]);
    free(s);
}

void tok_stream_put(struct tok_stream *s, bool more, size_t start, struct buf *out) {
    for (int i = 0; s && i < s->t->n_replaces; i++)
        if (s->t->replace[i].whole) replace_in(&s->t->replace[i], &s->run[i], more, start, out);
}

/* Removes all spaces from the part of out that begins at start. */
static void drop_spaces(size_t start, struct buf *out) {
    size_t n = start;
    for (size_t i = start; i < out->len; i++)
        if (out->data[i] != ' ') out->data[n++] = out->data[i];
    out->len = n;
    if (out->data) out->data[n] = 0;
}

bool tok_strips_added(const struct tok *t) {
    const struct prep *p = &t->prep;
    return tok_has_meta(t) && !t->drops_first &&
           ((p->prefix != PREFIX_NONE && !p->behind) || p->squeeze);
}

void tok_decode_text(const struct tok *t, const int32_t *id, int64_t n, bool special,
                     struct buf *out) {
    const struct prep *p = &t->prep;
    const size_t start = out->len;
    bool strip = t->strips == STRIPS_ADDED ? tok_strips_added(t) : t->strips == STRIPS_ONE;
    bool drop = t->drops_first;
    for (int64_t i = 0; i < n; i++) {
        size_t before = out->len;
        tok_decode(t, id[i], special, out);
        if (drop && out->len > start) {
            if (tok_type(t, id[i]) == TT_NORMAL) drop_spaces(start, out);
            drop = false;
        }
        if (!strip || before != start || out->len == start) continue;
        const int role = t->v.role[id[i]];
        if ((role == TT_NORMAL || role == TT_USER || is_spaced(t, id[i])) &&
            out->data[start] == ' ')
            memmove(out->data + start, out->data + start + 1, out->len-- - start);
        strip = p->squeeze && !p->runs_only && out->len == start; /* drop all leading spaces */
    }
    struct tok_stream *s = tok_stream_new(t);
    tok_stream_put(s, false, start, out);
    tok_stream_free(s);
}
