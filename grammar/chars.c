// SPDX-License-Identifier: MIT
/* grammar/chars.c - character sets and their encodings: UTF-8, and JSON string content. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/gram_int.h"
#include "text/utf8.h"

enum { CHAR_MAX_ = 0x10ffff, HIGH_FROM = 0xd800, LOW_TO = 0xdfff };

/* ---- sets ---- */

void gchars_add(struct gchars *c, uint32_t lo, uint32_t hi) {
    if (c->n == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 8;
        c->v = xreallocarray(c->v, c->cap, sizeof *c->v);
    }
    c->v[c->n++] = (struct grange){lo, hi};
}

/* Compares ranges by their first character, for qsort(). */
static int by_lo(const void *a, const void *b) {
    const struct grange *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

void gchars_sort(struct gchars *c) {
    size_t m = 0;
    if (c->n > 1) qsort(c->v, c->n, sizeof *c->v, by_lo);
    for (size_t i = 0; i < c->n; i++) {
        if (m > 0 && c->v[i].lo <= c->v[m - 1].hi + 1) {
            if (c->v[i].hi > c->v[m - 1].hi) c->v[m - 1].hi = c->v[i].hi;
        } else {
            c->v[m++] = c->v[i];
        }
    }
    c->n = m;
}

void gchars_invert(struct gchars *c) {
    struct gchars out = {0};
    uint32_t at = 0;
    gchars_add(c, HIGH_FROM, LOW_TO); /* surrogates are not characters */
    gchars_sort(c);
    for (size_t i = 0; i < c->n; i++) {
        if (c->v[i].lo > at) gchars_add(&out, at, c->v[i].lo - 1);
        at = c->v[i].hi + 1;
    }
    if (at <= CHAR_MAX_) gchars_add(&out, at, CHAR_MAX_);
    free(c->v);
    *c = out;
}

void gchars_release(struct gchars *c) {
    free(c->v);
    *c = (struct gchars){0};
}

/* ---- UTF-8 ---- */

struct alts {
    gnode *v;
    size_t n, cap;
};
static void add_alt(struct alts *s, gnode n) {
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 16;
        s->v = xreallocarray(s->v, s->cap, sizeof *s->v);
    }
    s->v[s->n++] = n;
}
/* Returns the union of the collected nodes and frees the list. */
static gnode alts_take(struct grammar *g, struct alts *s) {
    const gnode out = gn_alts(g, s->v, s->n);
    free(s->v);
    return out;
}

/* Appends the characters lo to hi, which all take n bytes in UTF-8. Splits the range into pieces
 * that are each a sequence of byte ranges. */
static void add_range(struct grammar *g, uint32_t lo, uint32_t hi, int n, struct alts *out) {
    for (int i = 1; i < n; i++) {
        const uint32_t low = (1u << 6 * i) - 1;
        if ((lo & ~low) == (hi & ~low)) continue;
        if (lo & low) {
            add_range(g, lo, lo | low, n, out);
            add_range(g, (lo | low) + 1, hi, n, out);
            return;
        }
        if ((hi & low) != low) {
            add_range(g, lo, (hi & ~low) - 1, n, out);
            add_range(g, hi & ~low, hi, n, out);
            return;
        }
    }
    char a[4], b[4];
    gnode x = G_EPS;
    (void)utf8_encode(lo, a);
    (void)utf8_encode(hi, b);
    for (int i = n; i-- > 0;) x = gn_cat(g, gn_bytes(g, (uint8_t)a[i], (uint8_t)b[i]), x);
    add_alt(out, x);
}

/* Adds the UTF-8 encodings of characters lo to hi. */
static void add_utf8(struct grammar *g, uint32_t lo, uint32_t hi, struct alts *out) {
    static const uint32_t first[] = {0, 0x80, 0x800, 0x10000, CHAR_MAX_ + 1};
    for (int n = 1; n <= 4; n++) {
        const uint32_t a = lo > first[n - 1] ? lo : first[n - 1];
        const uint32_t b = hi < first[n] - 1 ? hi : first[n] - 1;
        if (a > b) continue;
        if (n == 3 && a < HIGH_FROM && b > LOW_TO) {
            add_range(g, a, HIGH_FROM - 1, n, out);
            add_range(g, LOW_TO + 1, b, n, out);
        } else {
            add_range(g, a, b, n, out);
        }
    }
}

/* ---- inside JSON strings ---- */

/* Returns JSON's two-character escape; NULL: it has no such escape. */
static const char *short_escape(uint32_t cp) {
    static const struct {
        uint32_t cp;
        const char *s;
    } all[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\f', "\\f"},
               {'\n', "\\n"}, {'\r', "\\r"},  {'\t', "\\t"}};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        if (all[i].cp == cp) return all[i].s;
    return NULL;
}

/* Returns whether a character may occur unescaped in a JSON string. */
static bool is_raw(uint32_t cp) {
    return cp >= 0x20 && cp != '"' && cp != '\\';
}

gnode gn_chars(struct grammar *g, const struct gchars *c, bool escaped) {
    struct alts out = {0};
    for (size_t i = 0; i < c->n; i++) {
        uint32_t lo = c->v[i].lo, hi = c->v[i].hi;
        if (!escaped) {
            add_utf8(g, lo, hi, &out);
            continue;
        }
        for (; lo <= hi && lo < 0x60; lo++) {
            const char *s = short_escape(lo);
            char u[8];
            if (is_raw(lo)) add_alt(&out, gn_bytes(g, (int)lo, (int)lo));
            if (s) add_alt(&out, gn_str(g, s));
            if (is_raw(lo) || s) continue;
            snprintf(u, sizeof u, "\\u00%02x", (unsigned)lo);
            add_alt(&out, gn_str(g, u));
        }
        if (lo <= hi) add_utf8(g, lo, hi, &out);
    }
    return alts_take(g, &out);
}

gnode gn_char_any(struct grammar *g, bool escaped) {
    struct gchars c = {0};
    gchars_invert(&c);
    const gnode out = gn_chars(g, &c, escaped);
    gchars_release(&c);
    return out;
}

/* Returns the language of one hexadecimal digit with a value in [from, to], in either case. */
static gnode hex(struct grammar *g, int from, int to) {
    struct gset s = {{0}};
    for (int i = from; i <= to; i++) {
        const char *all = "0123456789abcdef0123456789ABCDEF";
        s.w[(uint8_t)all[i] / 64] |= (uint64_t)1 << all[i] % 64;
        s.w[(uint8_t)all[i + 16] / 64] |= (uint64_t)1 << all[i + 16] % 64;
    }
    return gn_set(g, &s);
}

gnode gn_char_json(struct grammar *g) {
    struct gchars c = {0};
    struct gset s = {{0}};
    struct alts out = {0};
    const gnode any = hex(g, 0, 15), u = gn_str(g, "\\u"), d = hex(g, 13, 13);
    for (const char *p = "\"\\/bfnrt"; *p; p++) s.w[*p / 64] |= (uint64_t)1 << *p % 64;
    gchars_add(&c, 0x20, 0x21);
    gchars_add(&c, 0x23, 0x5b);
    gchars_add(&c, 0x5d, HIGH_FROM - 1);
    gchars_add(&c, LOW_TO + 1, CHAR_MAX_);
    add_alt(&out, gn_chars(g, &c, false));
    add_alt(&out, gn_cat(g, gn_str(g, "\\"), gn_set(g, &s)));
    /* \u: not a surrogate, or a surrogate pair. */
    const gnode three = gn_rep(g, any, 3, 3), two = gn_rep(g, any, 2, 2);
    add_alt(&out, gn_cat3(g, u, gn_alt(g, hex(g, 0, 12), hex(g, 14, 15)), three));
    add_alt(&out, gn_cat(g, u, gn_cat3(g, d, hex(g, 0, 7), two)));
    add_alt(&out, gn_cat(g, gn_cat3(g, u, d, gn_cat(g, hex(g, 8, 11), two)),
                         gn_cat3(g, u, d, gn_cat(g, hex(g, 12, 15), two))));
    gchars_release(&c);
    g->json_char = alts_take(g, &out);
    return g->json_char;
}

gnode gn_escaped(struct grammar *g, const char *s, size_t n) {
    struct buf b = {0};
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = (uint8_t)s[i];
        const char *e = short_escape(c);
        if (e)
            buf_str(&b, e);
        else if (c < 0x20)
            buf_fmt(&b, "\\u00%02x", c);
        else
            buf_chr(&b, s[i]);
    }
    const gnode out = gn_text(g, b.data, b.len);
    buf_release(&b);
    return out;
}
