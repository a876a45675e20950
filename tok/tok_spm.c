// SPDX-License-Identifier: MIT
/* tok/tok_spm.c - SentencePiece's BPE: repeatedly joins the two neighbours whose union is the piece
 * with the highest score, the leftmost on ties, until no two neighbours form a piece.
 *
 * The model has no merge list: two neighbours can join if their combined text is a piece. A heap
 * holds the candidate pairs; the length of an entry shows whether its symbols have changed since.
 * An "unused" piece may form along the way; at the end it is split where it was joined. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tok/tok_enc.h"
#include "text/utf8.h"

struct spm_sym {
    uint32_t at, len; /* len 0: joined to the symbol before it */
    int32_t prev, next;
};
struct spm_pair {
    uint64_t key; /* smaller is better: the inverted score, then the position */
    uint32_t len; /* length of both symbols */
    int32_t right;
};

void spm_work_release(struct spm_work *w) {
    free(w->sym);
    free(w->heap);
    free(w->left_part);
    memset(w, 0, sizeof *w);
}

/* Returns whether a row is padding after the source's last token, "[PAD7]", and therefore not a
 * piece. */
static bool is_padding(const struct tok *t, int64_t id) {
    char pad[32];
    snprintf(pad, sizeof pad, "[PAD%lld]", (long long)id);
    return strcmp(pad, t->v.text[id]) == 0;
}

/* Returns whether merging may produce the token. */
static bool is_piece(const struct tok *t, int64_t id) {
    int type = t->v.type[id];
    if (type == TT_USER)
        return t->score[id] > ADDED_SCORE; /* others were added, and are matched first */
    return type == TT_NORMAL || (type == TT_UNUSED && !is_padding(t, id));
}

/* Returns the id of a text that merging may produce; -1 if not found. */
static int64_t find_piece(const struct tok *t, const char *s, size_t n) {
    int64_t id = vocab_find(&t->v, s, n);
    return id >= 0 && is_piece(t, id) ? id : -1;
}

int spm_build(struct tok *t, struct err *e) {
    TRY(pair_set_init(&t->may_join, (size_t)t->v.n * 2, e));
    t->cuts = true;
    size_t n_pairs = 0;
    for (int64_t id = 0; id < t->v.n; id++) {
        if (!is_piece(t, id)) continue;
        const char *s = t->v.text[id];
        uint32_t last = 0, cp;
        for (size_t i = 0, n = t->v.len[id]; i < n;) {
            size_t len = utf8_decode(s + i, n - i, &cp);
            if (len == 0) break; /* no text contains an empty piece */
            if (i > 0 && !pair_set_has(&t->may_join, last, cp)) {
                if (++n_pairs > (size_t)t->v.n * 2) {
                    t->cuts = false; /* longer than any piece of a real vocabulary */
                    return 0;
                }
                pair_set_add(&t->may_join, last, cp);
            }
            last = cp;
            i += len;
        }
    }
    return 0;
}

/* ---- the heap -------------------------------------------------------------------------------- */

/* Returns an unsigned number that sorts in the reverse order of the scores. */
static uint32_t sort_key(float score) {
    uint32_t u;
    if (score == 0.0f) score = 0.0f; /* -0 becomes 0 */
    memcpy(&u, &score, sizeof u);
    return u >> 31 ? u : ~u & 0x7fffffffu;
}

/* Makes room for one more pair; returns false with c->rc set if memory runs out. */
static bool heap_room(struct enc *c) {
    struct spm_work *w = &c->spm;
    if (w->n_heap < w->cap_heap) return true;
    const size_t cap = w->cap_heap ? 2 * w->cap_heap : 256;
    struct spm_pair *heap = enc_grow(c, w->heap, cap, sizeof *heap);
    if (!heap) return false;
    w->cap_heap = cap;
    w->heap = heap;
    return true;
}

/* Adds a pair to the heap; the smallest key is on top. */
static void push_pair(struct enc *c, struct spm_pair x) {
    struct spm_work *w = &c->spm;
    if (!heap_room(c)) return;
    size_t i = w->n_heap++;
    for (; i > 0 && w->heap[(i - 1) / 2].key > x.key; i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = x;
}

/* Removes and returns the pair with the smallest key; the heap must not be empty. */
static struct spm_pair pop_pair(struct spm_work *w) {
    struct spm_pair *h = w->heap, top = h[0], x = h[--w->n_heap];
    size_t i = 0, n = w->n_heap;
    for (size_t c = 1; c < n; c = 2 * i + 1) {
        if (c + 1 < n && h[c + 1].key < h[c].key) c++;
        if (h[c].key >= x.key) break;
        h[i] = h[c];
        i = c;
    }
    if (n) h[i] = x;
    return top;
}

/* ---- joining --------------------------------------------------------------------------------- */

/* Adds the pair of two symbols if the vocabulary has their text; an index of -1 means no
 * neighbour. */
static void push_pair_at(struct enc *c, const char *s, int32_t left, int32_t right) {
    struct spm_work *w = &c->spm;
    if (left < 0 || right < 0) return;
    const struct spm_sym *a = &w->sym[left];
    uint32_t len = a->len + w->sym[right].len;
    int64_t id = find_piece(c->t, s + a->at, len);
    if (id < 0) return;
    push_pair(c, (struct spm_pair){(uint64_t)sort_key(c->t->score[id]) << 32 | (uint32_t)left, len,
                                   right});
    if (c->t->v.type[id] != TT_UNUSED) return;
    if (!w->left_part) w->left_part = xcalloc((size_t)c->t->v.n, sizeof *w->left_part);
    w->left_part[id] = a->len;
}

/* Makes each character a symbol; returns their number, or 0 if memory runs out. */
static size_t split_chars(struct enc *c, const char *s, size_t n) {
    struct spm_work *w = &c->spm;
    size_t k = 0;
    if (w->cap_sym < n) {
        const size_t cap = n < 64 ? 64 : n;
        struct spm_sym *sym = enc_grow(c, w->sym, cap, sizeof *sym);
        if (!sym) return 0;
        w->cap_sym = cap;
        w->sym = sym;
    }
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t len = utf8_decode(s + i, n - i, &cp);
        w->sym[k] = (struct spm_sym){(uint32_t)i, (uint32_t)len, (int32_t)k - 1, (int32_t)k + 1};
        k++;
        i += len;
    }
    if (k) w->sym[k - 1].next = -1;
    return k;
}

/* Merges neighbours, best score first, until no two of them form a piece. */
static void join_all(struct enc *c, const char *s, size_t n_sym) {
    struct spm_work *w = &c->spm;
    w->n_heap = 0;
    for (size_t i = 1; i < n_sym; i++) push_pair_at(c, s, (int32_t)i - 1, (int32_t)i);
    while (w->n_heap) {
        struct spm_pair p = pop_pair(w);
        int32_t left = (int32_t)(uint32_t)p.key;
        struct spm_sym *a = &w->sym[left], *b = &w->sym[p.right];
        if (!a->len || !b->len || a->len + b->len != p.len) continue;
        a->len = p.len;
        a->next = b->next;
        if (b->next >= 0) w->sym[b->next].prev = left;
        b->len = 0;
        push_pair_at(c, s, a->prev, left);
        push_pair_at(c, s, left, a->next);
    }
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Appends a symbol's tokens. An unused piece is split; pending parts wait on a stack in the heap's
 * memory (key: the position), since pieces can be long. */
static void put_symbol(struct enc *c, const char *s, size_t n) {
    const struct tok *t = c->t;
    struct spm_work *w = &c->spm;
    w->n_heap = 0;
    if (!heap_room(c)) return;
    w->heap[0] = (struct spm_pair){.len = (uint32_t)n};
    w->n_heap = 1;
    while (w->n_heap) {
        struct spm_pair p = w->heap[--w->n_heap];
        int64_t id = find_piece(t, s + p.key, p.len);
        uint32_t left =
            id >= 0 && t->v.type[id] == TT_UNUSED && w->left_part ? w->left_part[id] : 0;
        if (left > 0 && left < p.len) {
            w->heap[w->n_heap++] = (struct spm_pair){.key = p.key + left, .len = p.len - left};
            if (!heap_room(c)) return;
            w->heap[w->n_heap++] = (struct spm_pair){.key = p.key, .len = left};
        } else if (id >= 0) {
            int32_t one = (int32_t)id;
            enc_ids(c, &one, 1);
        } else
            enc_unknown_char(c, s + p.key, p.len);
    }
}

void spm_piece(struct enc *c, const char *s, size_t n) {
    struct spm_work *w = &c->spm;
    size_t n_sym = split_chars(c, s, n);
    join_all(c, s, n_sym);
    for (int32_t i = n_sym ? 0 : -1; i >= 0; i = w->sym[i].next)
        put_symbol(c, s + w->sym[i].at, w->sym[i].len);
}
