// SPDX-License-Identifier: MIT
/* text/tok_ranks.c - scores in place of merges, for readers that know SentencePiece's BPE only.
 *
 * Score of a token: minus the rank of its best merge. Joining by those equals joining by the merges
 * when: every way to put a token together from two others is a merge; the merges of a token stand
 * next to each other; a merge stands behind those that make its parts; and where the right part of
 * one merge is the left part of another of the same token, the first has the lower rank (with three
 * symbols in a row, scores take the left pair). Then the joins that are possible when a token's
 * turn comes are the same in both, and so are those that are made. */
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "text/tok_hf.h"
#include "text/utf8.h"

struct made {            /* per token */
    int64_t first, last; /* ranks; -1: no merge */
    int64_t n;
};
struct parts {
    int64_t left, right, whole;
};

static struct parts parts_of(const struct tok *t, int64_t i) {
    const char *m = t->merge[i], *space = memchr(m + 1, ' ', t->merge_len[i] - 1);
    size_t n_left = (size_t)(space - m), n_right = t->merge_len[i] - n_left - 1;
    char *whole = xmalloc(n_left + n_right + 1);
    memcpy(whole, m, n_left);
    memcpy(whole + n_left, space + 1, n_right);
    struct parts p = {vocab_find(&t->v, m, n_left), vocab_find(&t->v, space + 1, n_right),
                      vocab_find(&t->v, whole, n_left + n_right)};
    free(whole);
    return p;
}

static bool one_char(const char *s, size_t n) {
    uint32_t cp;
    return utf8_decode(s, n, &cp) == n;
}

/* Could a symbol have this text? */
static bool is_symbol(const struct tok *t, const char *s, size_t n) {
    int64_t id = vocab_find(&t->v, s, n);
    return one_char(s, n) || (id >= 0 && t->v.type[id] == TT_NORMAL);
}

/* Number of ways to put a token together from two symbols. */
static int64_t n_ways(const struct tok *t, int64_t id) {
    const char *s = t->v.text[id];
    size_t n = t->v.len[id];
    int64_t ways = 0;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)s[i] & 0xc0) != 0x80)
            ways += is_symbol(t, s, i) && is_symbol(t, s + i, n - i);
    return ways;
}

/* The merges of one token, which stand next to each other from rank a on: none whose left part is
 * the right part of a later one. */
static bool left_first(const struct parts *p, int64_t a, int64_t n) {
    for (int64_t i = a; i < a + n; i++)
        for (int64_t k = i + 1; k < a + n; k++)
            if (p[k].right == p[i].left) return false;
    return true;
}

static bool same_order(const struct tok *t, const struct made *made, const struct parts *p) {
    for (int64_t i = 0; i < t->n_merges; i++)
        if (made[p[i].left].last >= i || made[p[i].right].last >= i) return false;
    for (int64_t id = 0; id < t->v.n; id++) {
        const struct made *m = &made[id];
        if (t->v.type[id] != TT_NORMAL) {
            if (m->n) return false;
            continue;
        }
        if (n_ways(t, id) != m->n) return false;
        if (m->n && (m->last - m->first + 1 != m->n || !left_first(p, m->first, m->n)))
            return false;
    }
    return true;
}

bool ranks_to_scores(struct tok *t) {
    struct made *made = xcalloc((size_t)t->v.n, sizeof *made);
    struct parts *p = xcalloc((size_t)t->n_merges + 1, sizeof *p);
    for (int64_t id = 0; id < t->v.n; id++) made[id] = (struct made){-1, -1, 0};
    for (int64_t i = 0; i < t->n_merges; i++) {
        p[i] = parts_of(t, i);
        struct made *m = &made[p[i].whole];
        if (m->first < 0) m->first = i;
        m->last = i;
        m->n++;
    }
    t->score = xcalloc((size_t)t->v.n, sizeof *t->score);
    for (int64_t id = 0; id < t->v.n; id++) {
        int type = t->v.type[id];
        t->score[id] = made[id].n          ? -(float)made[id].first
                       : type == TT_UNUSED ? -10000.0f
                       : type != TT_NORMAL ? ADDED_SCORE
                       : one_char(t->v.text[id], t->v.len[id])
                           ? 0.0f
                           : -(float)t->n_merges; /* no merge makes it */
    }
    bool exact = same_order(t, made, p) && t->fuse_unk + t->all_bytes > 0 && !t->split_words &&
                 !t->ignore_merges;
    free(made);
    free(p);
    return exact;
}
