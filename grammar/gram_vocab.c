// SPDX-License-Identifier: MIT
/* grammar/gram_vocab.c - the vocabulary as a byte trie in depth-first order, so that one jump skips
 * a subtree. Tokens that consist only of characters of certain kinds are also stored as bit sets
 * ("slices"): where a language allows all such text, these tokens need no walk of the trie. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "grammar/gram_int.h"
#include "tok/tok.h"
#include "text/utf8.h"

enum { TOKEN_MAX = 1024, WORDS = 32 };

enum { LOWER, UPPER, DIGIT, BLANK, LINE, OTHER, HIGH };

int gram_kind_of(uint32_t cp) {
    if (cp >= 'a' && cp <= 'z') return LOWER;
    if (cp >= 'A' && cp <= 'Z') return UPPER;
    if (cp >= '0' && cp <= '9') return DIGIT;
    if (cp == ' ') return BLANK;
    if (cp == '_') return LINE;
    if (cp < 0x20 || cp == '"' || cp == '\\' || cp == 0x2028 || cp == 0x2029) return -1;
    return cp < 0x7f ? OTHER : HIGH;
}

unsigned gram_slice_kinds(int k) {
    static const unsigned kinds[GRAM_SLICES] = {(1 << GRAM_KINDS) - 1,
                                                1 << LOWER | 1 << UPPER | 1 << BLANK,
                                                1 << LOWER | 1 << UPPER | 1 << DIGIT | 1 << LINE};
    return kinds[k];
}

/* Returns whether slice k contains a character. */
static bool slice_has(int k, uint32_t cp) {
    const int kind = gram_kind_of(cp);
    return kind >= 0 && gram_slice_kinds(k) >> kind & 1;
}

/* Returns the number of characters in a token of n bytes, or -1 if any of them is not in slice
 * k. */
static int64_t slice_chars(const char *s, size_t n, int k) {
    int64_t chars = 0;
    for (size_t i = 0; i < n; chars++) {
        uint32_t cp;
        const size_t used = utf8_decode(s + i, n - i, &cp);
        if (!used || !slice_has(k, cp)) return -1;
        i += used;
    }
    return chars;
}

/* ---- trie ---- */

struct sorted { /* element for qsort(), which has no context argument */
    const char *s;
    size_t n;
    int32_t id;
};
static int cmp_tokens(const void *a, const void *b) {
    const struct sorted *s = a, *t = b;
    const int c = memcmp(s->s, t->s, s->n < t->n ? s->n : t->n);
    if (c) return c;
    return s->n != t->n ? (s->n > t->n) - (s->n < t->n) : (s->id > t->id) - (s->id < t->id);
}

/* Returns whether the n bytes are an incomplete character. */
static bool begins_char(const char *s, size_t n) {
    const uint8_t a = (uint8_t)s[0], b = n > 1 ? (uint8_t)s[1] : 0;
    if (a < 0xc2 || a > 0xf4 || n >= (a < 0xe0 ? 2u : a < 0xf0 ? 3u : 4u)) return false;
    for (size_t i = 1; i < n; i++)
        if (((uint8_t)s[i] & 0xc0) != 0x80) return false;
    return n < 2 || !((a == 0xe0 && b < 0xa0) || (a == 0xed && b > 0x9f) ||
                      (a == 0xf0 && b < 0x90) || (a == 0xf4 && b > 0x8f));
}

/* Adds the kinds of a token's characters to the nodes of its bytes, from the last character to the
 * first; node[i] belongs to byte i. */
static void add_kinds(struct gtrie *t, const uint32_t *node, const char *s, size_t n) {
    size_t start[TOKEN_MAX + 1], m = 0;
    unsigned kinds = 0, chars = 0;
    for (size_t i = 0; i < n; m++) {
        uint32_t cp;
        const size_t used = utf8_decode(s + i, n - i, &cp);
        start[m] = i;
        i += used ? used : n - i; /* the rest is not valid UTF-8 */
    }
    for (size_t end = n; m-- > 0; end = start[m]) {
        uint32_t cp;
        const size_t used = utf8_decode(s + start[m], n - start[m], &cp);
        const int kind = used                                      ? gram_kind_of(cp)
                         : begins_char(s + start[m], n - start[m]) ? HIGH
                                                                   : -1;
        kinds |= kind < 0 || chars == GRAM_CHARS_MAX ? (unsigned)GRAM_ODD : 1u << kind;
        if (chars < GRAM_CHARS_MAX) chars++;
        for (size_t i = start[m]; i < end; i++) {
            uint8_t *c = &t->chars[node[i]];
            t->v[node[i]].kinds |= (uint8_t)kinds;
            if ((*c & GRAM_CHARS_MAX) < chars) *c = (uint8_t)((*c & GRAM_ODD) | chars);
        }
        if (used) t->chars[node[end - 1]] |= GRAM_ODD;
    }
}

/* Builds the trie t of n_id tokens, whose ids are sorted by their bytes. */
static void build(struct gram_vocab *v, struct gtrie *t, const int32_t *id, int64_t n_id) {
    uint32_t *open = xcalloc(v->longest + 1, sizeof *open), cap = 1024;
    size_t depth = 0;
    const char *last = "";
    t->v = xcalloc(cap, sizeof *t->v);
    t->chars = xcalloc(cap, 1);
    for (int64_t i = 0; i < n_id; i++) {
        size_t n, same = 0;
        const char *s = gram_token(v, id[i], &n);
        while (same < depth && same < n && s[same] == last[same]) same++;
        while (depth > same) t->v[open[--depth]].skip = t->n;
        for (; depth < n; depth++) {
            if (t->n == cap) {
                t->v = xreallocarray(t->v, cap *= 2, sizeof *t->v);
                t->chars = xreallocarray(t->chars, cap, 1);
                memset(t->chars + t->n, 0, cap - t->n);
            }
            t->v[t->n] = (struct gtrie_node){
                .first = (uint32_t)i, .depth = (uint16_t)(depth + 1), .byte = (uint8_t)s[depth]};
            open[depth] = t->n++;
        }
        add_kinds(t, open, s, n);
        last = s;
    }
    while (depth > 0) t->v[open[--depth]].skip = t->n;
    t->v = xreallocarray(t->v, t->n + 1, sizeof *t->v);
    t->v[t->n] = (struct gtrie_node){.first = (uint32_t)n_id};
    t->id = xcalloc((size_t)n_id + 1, sizeof *t->id);
    if (n_id) memcpy(t->id, id, (size_t)n_id * sizeof *id);
    v->n_bytes += t->n * (sizeof *t->v + 1) + (size_t)n_id * sizeof *id;
    free(open);
}

static void trie_free(struct gtrie *t) {
    free(t->v);
    free(t->id);
    free(t->chars);
}

/* Divides n_id tokens into those with only characters of slice k, and the rest. */
static void build_slice(struct gram_vocab *v, int k, const int32_t *id, int64_t n_id) {
    struct gslice *s = &v->slice[k];
    int32_t *rest = xcalloc((size_t)n_id + 1, sizeof *rest);
    int64_t n_rest = 0;
    for (int c = 0; c <= GRAM_SLICE_CHARS; c++) s->bits[c] = xcalloc(v->n_words, sizeof(uint32_t));
    v->n_bytes += (GRAM_SLICE_CHARS + 1) * v->n_words * sizeof(uint32_t);
    for (int64_t i = 0; i < n_id; i++) {
        size_t n;
        const char *t = gram_token(v, id[i], &n);
        const int64_t chars = slice_chars(t, n, k);
        if (chars < 0 || chars > GRAM_SLICE_CHARS)
            rest[n_rest++] = id[i];
        else
            s->bits[chars][id[i] / WORDS] |= 1u << id[i] % WORDS;
    }
    for (int c = 1; c <= GRAM_SLICE_CHARS; c++)
        for (size_t w = 0; w < v->n_words; w++) s->bits[c][w] |= s->bits[c - 1][w];
    build(v, &s->rest, rest, n_rest);
    free(rest);
}

/* Returns whether every byte that can occur in UTF-8 text is also a token. */
static bool has_bytes(const struct gram_vocab *v) {
    bool has[256] = {false};
    for (int32_t i = 0; i < v->n; i++)
        if (v->at[i + 1] - v->at[i] == 1 && !v->is_end[i]) has[(uint8_t)v->bytes[v->at[i]]] = true;
    for (int b = ' '; b <= 0xf4; b++)
        if (!has[b] && b != 0x7f && b != 0xc0 && b != 0xc1) return false;
    return has['\n'] && has['\t'];
}

/* Sorts the tokens and builds the trie and all slices. */
static void finish_vocab(struct gram_vocab *v) {
    int32_t *id = xcalloc((size_t)v->n + 1, sizeof *id);
    struct sorted *order = xcalloc((size_t)v->n + 1, sizeof *order);
    int64_t n_id = 0;
    for (int32_t i = 0; i < v->n; i++) {
        size_t n;
        const char *s = gram_token(v, i, &n);
        if (n > 0) order[n_id++] = (struct sorted){s, n, i};
        if (v->is_end[i]) {
            v->end = xreallocarray(v->end, (size_t)v->n_end + 1, sizeof *v->end);
            v->end[v->n_end++] = i;
        }
        if (n > v->longest) v->longest = n;
    }
    qsort(order, (size_t)n_id, sizeof *order, cmp_tokens);
    for (int64_t i = 0; i < n_id; i++) id[i] = order[i].id;
    free(order);
    for (int k = 0; k < GRAM_SLICES; k++) build_slice(v, k, id, n_id);
    build(v, &v->all, id, n_id);
    v->has_bytes = has_bytes(v);
    v->n_bytes += v->at[v->n] + (size_t)v->n * (sizeof *v->at + 1);
    free(id);
}

/* ---- sources ---- */

/* Creates a vocabulary of n tokens without texts. ERR_DATA: too many. */
static int start_vocab(struct gram_vocab **out, int64_t n, struct err *e) {
    if (n < 1 || n >= 1 << 24)
        return err_set(e, ERR_DATA,
                       "a vocabulary of %" PRId64 " tokens is not supported (1 to 16777215)", n);
    struct gram_vocab *v = xcalloc(1, sizeof *v);
    v->n = n;
    v->n_words = ((size_t)n + WORDS - 1) / WORDS;
    v->at = xcalloc((size_t)n + 1, sizeof *v->at);
    v->is_end = xcalloc((size_t)n, 1);
    *out = v;
    return 0;
}

/* Appends a special token's edges in the trie: GRAM_TOKEN and three bytes of the id, which text
 * cannot contain. */
static void add_edges(struct buf *b, int32_t id) {
    const uint32_t x = (uint32_t)id;
    buf_chr(b, (char)GRAM_TOKEN);
    buf_chr(b, (char)(uint8_t)(x >> 16));
    buf_chr(b, (char)(uint8_t)(x >> 8));
    buf_chr(b, (char)(uint8_t)x);
}

/* Compares special tokens, longest first, for qsort(). */
static int by_length(const void *a, const void *b) {
    const struct special *x = a, *y = b;
    const size_t n = strlen(x->text), m = strlen(y->text);
    return n != m ? (n < m) - (n > m) : strcmp(x->text, y->text);
}

/* Adds the text of a special token; ignores empty ones and those with NUL. */
static void add_special(struct gram_vocab *v, const char *s, size_t n, int32_t id) {
    if (n == 0 || memchr(s, 0, n)) return;
    v->special = xreallocarray(v->special, (size_t)v->n_special + 1, sizeof *v->special);
    v->special[v->n_special++] = (struct special){xstrndup(s, n), id};
}

int gram_vocab_new(struct gram_vocab **out, const struct tok *t, struct err *e) {
    struct gram_vocab *v;
    struct buf all = {0};
    TRY(start_vocab(&v, tok_n_vocab(t), e));
    for (int32_t i = 0; i < v->n; i++) {
        const size_t from = all.len;
        tok_decode(t, i, false, &all);
        v->is_end[i] = tok_is_eog(t, i);
        if (all.len == from && tok_type(t, i) == TT_CONTROL) {
            tok_decode(t, i, true, &all);
            add_special(v, all.data + from, all.len - from, i);
            all.len = from;
            add_edges(&all, i);
        }
        if (all.len - from > TOKEN_MAX) all.len = from; /* too long: never allowed */
        v->at[i + 1] = (uint32_t)all.len;
    }
    if (v->n_special) qsort(v->special, (size_t)v->n_special, sizeof *v->special, by_length);
    v->bytes = buf_take(&all);
    finish_vocab(v);
    *out = v;
    return 0;
}

int gram_vocab_of(struct gram_vocab **out, const char *const *text, const size_t *len, int64_t n,
                  int32_t end, struct err *e) {
    struct gram_vocab *v;
    struct buf all = {0};
    TRY(start_vocab(&v, n, e));
    for (int64_t i = 0; i < n; i++) {
        if (i == end)
            v->is_end[i] = 1;
        else if (len[i] <= TOKEN_MAX)
            buf_add(&all, text[i], len[i]);
        v->at[i + 1] = (uint32_t)all.len;
    }
    v->bytes = buf_take(&all);
    finish_vocab(v);
    *out = v;
    return 0;
}

void gram_vocab_free(struct gram_vocab *v) {
    if (!v) return;
    for (int k = 0; k < GRAM_SLICES; k++) {
        for (int c = 0; c <= GRAM_SLICE_CHARS; c++) free(v->slice[k].bits[c]);
        trie_free(&v->slice[k].rest);
    }
    for (int i = 0; i < v->n_special; i++) free(v->special[i].text);
    free(v->special);
    trie_free(&v->all);
    free(v->at);
    free(v->is_end);
    free(v->end);
    free(v->bytes);
    free(v);
}

int64_t gram_vocab_size(const struct gram_vocab *v) {
    return v->n;
}
