// SPDX-License-Identifier: MIT
/* tok/vocab.c - vocabulary: token texts, byte alphabet, search for special tokens.
 *
 * The search keeps the texts sorted. At each position whose byte begins one of them, it narrows the
 * range of matching texts byte by byte with a binary search, so a thousand texts with a common
 * prefix cost at most ten steps per byte. */
#include "tok/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/utf8.h"

static const char what[] = "a vocabulary";

int vocab_init(struct vocab *v, int64_t n, struct err *e) {
    if (n <= 0 || n > INT32_MAX / 2)
        return err_set(e, ERR_DATA, "a vocabulary cannot have %lld tokens", (long long)n);
    v->n = n;
    const size_t many = (size_t)n;
    if (!(v->text = try_calloc(many, sizeof *v->text, what, e)) ||
        !(v->len = try_calloc(many, sizeof *v->len, what, e)) ||
        !(v->type = try_calloc(many, 1, what, e)) || !(v->role = try_calloc(many, 1, what, e)))
        return ERR_SYS;
    return 0;
}

void vocab_release(struct vocab *v) {
    arena_release(&v->arena);
    free(v->text);
    free(v->len);
    free(v->type);
    free(v->role);
    strmap_free(v->map);
    memset(v, 0, sizeof *v);
}

void vocab_set(struct vocab *v, int64_t id, const char *text, size_t len, enum tok_type type) {
    v->text[id] = arena_strndup(&v->arena, text, len);
    v->len[id] = (uint32_t)len;
    v->type[id] = v->role[id] = (uint8_t)type;
}

int vocab_index(struct vocab *v, struct err *e) {
    v->map = strmap_try_new((size_t)v->n, what, e);
    if (!v->map) return ERR_SYS;
    TRY(mem_check(e));
    for (int64_t i = 0; i < v->n; i++)
        if (v->len[i] && !strmap_add(v->map, v->text[i], v->len[i], i))
            return err_set(e, ERR_DATA,
                           "tokens %lld and %lld have the same text \"%.64s\": ids must be unique",
                           (long long)strmap_get(v->map, v->text[i], v->len[i]), (long long)i,
                           v->text[i]);
    return 0;
}

int64_t vocab_find(const struct vocab *v, const char *text, size_t len) {
    return strmap_get(v->map, text, len);
}

/* ---- byte alphabet: printable Latin-1 is unchanged, the other 68 bytes follow U+0100 ---- */

/* Returns whether byte-level vocabularies write the byte b as itself. */
static bool stands_for_itself(uint32_t b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
}

/* Returns the number of bytes below b that are remapped. */
static uint32_t n_moved_below(uint32_t b) {
    if (b <= 33) return b;
    if (b <= 126) return 33;
    if (b <= 160) return 33 + b - 127;
    return b <= 173 ? 67 : 68;
}

uint32_t vocab_byte_char(uint8_t byte) {
    return stands_for_itself(byte) ? byte : 0x100 + n_moved_below(byte);
}

int vocab_char_byte(uint32_t cp) {
    if (cp < 0x100) return stands_for_itself(cp) ? (int)cp : -1;
    uint32_t k = cp - 0x100;
    if (k < 33) return (int)k;
    if (k < 67) return (int)(127 + k - 33);
    return k == 67 ? 173 : -1;
}

void vocab_spell(struct buf *out, const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char c[4];
        buf_add(out, c, utf8_encode(vocab_byte_char((uint8_t)s[i]), c));
    }
}

/* ---- search ---- */

struct spot *spots_add(struct spots *a, const char *text, size_t len, int64_t id, bool control) {
    if (len == 0) return NULL; /* would match everywhere */
    if ((a->n & (a->n - 1)) == 0) a->v = xreallocarray(a->v, a->n ? a->n * 2 : 1, sizeof *a->v);
    a->v[a->n] = (struct spot){.text = text, .len = (uint32_t)len, .id = (int32_t)id};
    a->v[a->n].control = control;
    a->first[(unsigned char)text[0]] = true;
    return &a->v[a->n++];
}

/* Orders spots by bytes, shorter texts first, for qsort. */
static int by_text(const void *x, const void *y) {
    const struct spot *a = x, *b = y;
    int c = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

void spots_sort(struct spots *a) {
    if (a->n) qsort(a->v, a->n, sizeof *a->v, by_text);
}

void spots_release(struct spots *a) {
    free(a->v);
    memset(a, 0, sizeof *a);
}

/* Returns the first entry in [lo, hi) whose byte at `depth` is at least `byte`; all of these
 * entries are longer than depth. */
static size_t lower(const struct spots *a, size_t lo, size_t hi, size_t depth, int byte) {
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if ((unsigned char)a->v[mid].text[depth] < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Returns the longest text at the start of s; control: even of control tokens. NULL: no text
 * matches. */
static const struct spot *longest_at(const struct spots *a, const char *s, size_t n, bool control) {
    const struct spot *best = NULL;
    size_t lo = 0, hi = a->n;
    for (size_t depth = 0; depth < n; depth++) {
        int byte = (unsigned char)s[depth];
        lo = lower(a, lo, hi, depth, byte);
        hi = lower(a, lo, hi, depth, byte + 1);
        /* Texts that end here sort before longer ones. */
        for (; lo < hi && a->v[lo].len == depth + 1; lo++)
            if (control || !a->v[lo].control) best = &a->v[lo];
        if (lo >= hi) break;
    }
    return best;
}

const struct spot *spots_at(const struct spots *a, const char *s, size_t n, bool control) {
    return a->n && n && a->first[(unsigned char)s[0]] ? longest_at(a, s, n, control) : NULL;
}

/* Returns whether the character is part of a word for the tokenizers library, whose \w includes the
 * zero-width joiner and non-joiner. */
static bool is_in_word(uint32_t cp) {
    return utf8_is_word(cp) || cp == 0x200c || cp == 0x200d;
}

/* Returns whether a single word may occupy s[from..to). */
static bool stands_alone(const char *s, size_t n, size_t from, size_t to) {
    uint32_t cp;
    size_t at = from;
    while (at > 0 && ((unsigned char)s[--at] & 0xc0) == 0x80) continue;
    if (from && utf8_decode(s + at, from - at, &cp) && is_in_word(cp)) return false;
    return to >= n || !utf8_decode(s + to, n - to, &cp) || !is_in_word(cp);
}

const struct spot *spots_find(const struct spots *a, const char *s, size_t n, size_t at,
                              bool control, size_t *where) {
    for (; a->n && at < n; at++) {
        if (!a->first[(unsigned char)s[at]]) continue;
        const struct spot *hit = longest_at(a, s + at, n - at, control);
        if (hit && hit->single_word && !stands_alone(s, n, at, at + hit->len)) {
            at += hit->len - 1; /* other tokens are not matched inside it */
            continue;
        }
        if (hit) {
            *where = at;
            return hit;
        }
    }
    *where = n;
    return NULL;
}
