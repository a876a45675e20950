// SPDX-License-Identifier: MIT
/* tok/tok_prep.c - normalization of the text between added tokens: Unicode normal forms and the
 * steps of SentencePiece (replacement table, space collapsing, leading space, U+2581 for
 * spaces). */
#include <string.h>

#include "tok/tok_int.h"
#include "text/utf8.h"

#define META "\xe2\x96\x81" /* U+2581 */

/* Appends the text with U+2581 for spaces. */
static void spaces_to_meta(struct buf *out, const char *s, size_t n) {
    while (n > 0) {
        const char *sp = memchr(s, ' ', n);
        size_t k = sp ? (size_t)(sp - s) : n;
        buf_add(out, s, k);
        if (sp) buf_str(out, META);
        k += sp != NULL;
        s += k;
        n -= k;
    }
}

/* Returns whether the text starts with a space or its U+2581. */
static bool starts_with_space(const struct tok *t, const char *s, size_t n) {
    return n > 0 && (s[0] == ' ' || (tok_has_meta(t) && n >= 3 && memcmp(s, META, 3) == 0));
}

/* Appends the space that the rules add before the text; first: it is the beginning of the whole
 * text. */
static void add_space(const struct tok *t, const char *s, size_t n, bool first, struct buf *out) {
    const struct prep *p = &t->prep;
    if (p->prefix == PREFIX_NONE || (p->prefix == PREFIX_FIRST && !first)) return;
    if (p->prefix_unless && starts_with_space(t, s, n)) return;
    buf_str(out, tok_has_meta(t) ? META : " ");
}

/* Normalizes one unit at s: a user-defined piece is unchanged, otherwise a rule gives its
 * replacement, otherwise it is one character. Returns the number of bytes of s consumed. */
static size_t next_unit(const struct tok *t, const char *s, size_t n, int steps, const char **to,
                        size_t *len) {
    const struct spot *user = spots_at(&t->user, s, n, false);
    uint32_t cp;
    *to = s;
    if (user) return *len = user->len;
    const bool maps = t->prep.map && steps & PREP_TEXT;
    size_t used = maps ? charsmap_find(t->prep.map, s, n, to) : 0;
    if (used) *len = strlen(*to);
    if (used && utf8_valid_prefix(*to, *len) == *len) return used;
    *to = s;
    *len = used = utf8_decode(s, n, &cp);
    if (used) return used;
    *to = "\xef\xbf\xbd"; /* U+FFFD for an invalid byte */
    *len = 3;
    return 1;
}

static bool is_space(const char *s, size_t n) {
    return n == 1 && s[0] == ' ';
}

/* Removes trailing spaces, stored as U+2581, from `out`. */
static void trim(struct buf *out, size_t start) {
    while (out->len - start >= 3 && memcmp(out->data + out->len - 3, META, 3) == 0) out->len -= 3;
    if (out->data) out->data[out->len] = 0;
}

/* Normalizes s as SentencePiece does and appends it to out. steps: PREP_ bits; squeeze joins
 * spaces. */
static void sp_units(const struct tok *t, const char *s, size_t n, bool squeeze, int steps,
                     struct buf *out) {
    bool after_space = squeeze && !t->prep.runs_only;
    while (n > 0) {
        const char *to;
        size_t len, used = next_unit(t, s, n, steps, &to, &len);
        while (after_space && len > 0 && to[0] == ' ') to++, len--;
        if (steps & PREP_SPACES)
            spaces_to_meta(out, to, len);
        else
            buf_add(out, to, len);
        if (len > 0) after_space = squeeze && to[len - 1] == ' ';
        s += used;
        n -= used;
    }
}

/* Normalizes as SentencePiece does. A normalizer that keeps one space of a run (runs_only)
 * collapses in PREP_TEXT, others in PREP_SPACES. */
static void sp_normalize(const struct tok *t, const char *s, size_t n, bool first, int steps,
                         struct buf *out) {
    const struct prep *p = &t->prep;
    const bool squeeze = p->squeeze && steps & (p->runs_only ? PREP_TEXT : PREP_SPACES);
    const bool ends = squeeze && !p->runs_only;
    size_t start = out->len;
    if (p->runs_only && squeeze) n -= utf8_white_before(s, n);
    while (ends && n > 0) {
        const char *to;
        size_t len, used = next_unit(t, s, n, steps, &to, &len);
        if (!is_space(to, len)) break;
        s += used;
        n -= used;
    }
    if (n == 0) return;
    if (steps & PREP_SPACES && !p->behind) add_space(t, s, n, first, out);
    if (!(p->map && steps & PREP_TEXT) && !squeeze && utf8_valid_prefix(s, n) == n) {
        if (steps & PREP_SPACES)
            spaces_to_meta(out, s, n); /* same result, but faster */
        else
            buf_add(out, s, n);
    } else
        sp_units(t, s, n, squeeze, steps, out);
    if (ends) trim(out, start);
    if (steps & PREP_SPACES && p->behind) add_space(t, s, n, first, out);
}

void tok_prepare(const struct tok *t, const char *s, size_t n, bool first, int steps,
                 struct buf *out) {
    struct buf form = {0};
    if (n == 0) return;
    if (t->prep.form && steps & PREP_TEXT) {
        utf8_normalize(&form, s, n, t->prep.form);
        s = form.data;
        n = form.len;
    }
    if (t->kind == TOK_SPM || t->kind == TOK_UNIGRAM) {
        sp_normalize(t, s, n, first, steps, out);
    } else {
        if (steps & PREP_SPACES) add_space(t, s, n, first, out);
        if (steps & PREP_SPACES && t->kind == TOK_META && !t->prep.as_is)
            spaces_to_meta(out, s, n);
        else
            buf_add(out, s, n);
    }
    buf_release(&form);
}
