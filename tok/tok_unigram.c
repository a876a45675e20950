// SPDX-License-Identifier: MIT
/* tok/tok_unigram.c - SentencePiece's unigram model: the segmentation with the largest total score;
 * on ties, at each position, the one whose last piece is longest.
 *
 * A single pass over the text computes the best path to each position (Viterbi). Where no piece
 * spans a position, the path to it is settled, so it is emitted and its memory reused. A character
 * that no piece starts and ends with costs ten more than the worst piece and is unknown. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tok/tok_enc.h"
#include "text/utf8.h"

#define UNKNOWN_COSTS 10.0f

struct unigram_node { /* best path to a position in the text */
    double sum;
    int64_t from; /* start of its last piece; -1: no path yet */
    int32_t id;   /* id of that piece; -1: unknown character */
};

void unigram_work_release(struct unigram_work *w) {
    free(w->node);
    free(w->end);
    memset(w, 0, sizeof *w);
}

int unigram_build(struct tok *t, struct err *e) {
    uint64_t bytes = 0;
    t->least = INFINITY;
    t->most = -INFINITY;
    for (int64_t id = 0; id < t->v.n; id++) {
        int type = t->v.type[id];
        if (type == TT_NORMAL) {
            t->least = fminf(t->least, t->score[id]);
            t->most = fmaxf(t->most, t->score[id]);
        }
        if (type != TT_NORMAL && type != TT_USER) continue;
        bytes += t->v.len[id];
        if (bytes > INT32_MAX) return err_set(e, ERR_DATA, "the pieces are too long altogether");
        trie_add(&t->trie, t->v.text[id], t->v.len[id], (int32_t)id);
    }
    if (t->least > t->most) t->least = t->most = 0.0f; /* no normal piece */
    return 0;
}

/* The part of the text whose best path is not settled yet. */
struct span {
    struct enc *c;
    const char *s;
    size_t base, reach; /* range of positions with nodes */
};

/* Returns the node at text position `at`, which must be within the span. */
static struct unigram_node *node_at(struct span *p, size_t at) {
    return &p->c->unigram.node[at - p->base];
}

/* Makes room for, and clears, the nodes up to offset `end`. Returns false if memory runs
 * out. */
static bool reach_to(struct span *p, size_t end) {
    struct unigram_work *w = &p->c->unigram;
    if (end - p->base >= w->cap) {
        size_t cap = w->cap ? w->cap : 256;
        while (cap <= end - p->base) cap *= 2;
        struct unigram_node *v = enc_grow(p->c, w->node, cap, sizeof *v);
        if (!v) return false;
        w->node = v;
        w->cap = cap;
    }
    while (p->reach < end) node_at(p, ++p->reach)->from = -1;
    return true;
}

/* Keeps the piece from `from` to `to` if it gives offset `to` a better sum of scores. */
static void offer_piece(struct span *p, size_t from, size_t to, double score, int32_t id) {
    const struct tok *t = p->c->t;
    if (to > p->reach && !reach_to(p, to)) return;
    struct unigram_node *n = node_at(p, to);
    double sum = score + node_at(p, from)->sum;
    if (t->float_sums) sum = (double)(float)sum;
    if (n->from >= 0 && sum <= n->sum) return;
    n->sum = sum;
    n->from = (int64_t)from;
    n->id = id;
}

/* Returns the piece's score; a user-defined piece of len bytes gets a score that always wins. */
static double score_of(const struct tok *t, int32_t id, size_t len) {
    if (t->v.type[id] != TT_USER) return (double)t->score[id];
    /* The score that SentencePiece gives user-defined pieces so that they are always used. */
    return (double)((float)len * t->most) - 0.1;
}

/* Offers every piece of the vocabulary that begins at offset `at`. */
static void offer_from(struct span *p, size_t at, size_t n) {
    const struct tok *t = p->c->t;
    uint32_t cp, at_node = 0;
    size_t len = utf8_decode(p->s + at, n - at, &cp);
    bool single = false;
    for (size_t i = at; i < n; i++) {
        at_node = trie_step(&t->trie, at_node, (uint8_t)p->s[i]);
        if (!at_node) break;
        int32_t id = t->trie.id[at_node];
        if (id < 0) continue;
        offer_piece(p, at, i + 1, score_of(t, id, i + 1 - at), id);
        single = single || i + 1 - at == len;
    }
    if (!single) offer_piece(p, at, at + len, (double)(t->least - UNKNOWN_COSTS), -1);
}

/* Appends the piece; id -1: an unknown character of n bytes. */
static void put_piece(struct enc *c, const char *s, size_t n, int32_t id) {
    if (id >= 0)
        enc_ids(c, &id, 1);
    else
        enc_unknown_char(c, s, n);
}

/* Emits the best path from base to `end`, which becomes the new base. */
static void settle(struct span *p, size_t end) {
    struct unigram_work *w = &p->c->unigram;
    struct unigram_node last = *node_at(p, end);
    size_t n = 0, at = end;
    while (at > p->base) { /* backwards, to find the end of each piece */
        if (n == w->cap_end) {
            size_t *v = enc_grow(p->c, w->end, n ? 2 * n : 256, sizeof *v);
            if (!v) return;
            w->end = v;
            w->cap_end = n ? 2 * n : 256;
        }
        w->end[n++] = at;
        at = (size_t)node_at(p, at)->from;
    }
    while (n > 0) {
        size_t to = w->end[--n];
        put_piece(p->c, p->s + at, to - at, node_at(p, to)->id);
        at = to;
    }
    p->base = p->reach = end;
    *node_at(p, end) = last;
}

/* Returns the end of the word at `at`: the next U+2581 if words are split, otherwise the end of the
 * text. */
static size_t end_of_word(const struct tok *t, const char *s, size_t n, size_t at) {
    const char *next = t->split_words ? memmem(s + at + 1, n - at - 1, "\xe2\x96\x81", 3) : NULL;
    return next ? (size_t)(next - s) : n;
}

void unigram_text(struct enc *c, const char *s, size_t n) {
    struct span p = {c, s, 0, 0};
    c->last_unk = -1;
    if (!reach_to(&p, 0)) return;
    *node_at(&p, 0) = (struct unigram_node){0.0, 0, -1};
    size_t word_end = 0;
    for (size_t at = 0; at < n;) {
        uint32_t cp;
        if (at == p.reach && at > p.base) settle(&p, at);
        if (at >= word_end) word_end = end_of_word(c->t, s, n, at);
        offer_from(&p, at, word_end);
        if (c->rc) return;
        at += utf8_decode(s + at, n - at, &cp);
    }
    if (n > p.base) settle(&p, n);
}
