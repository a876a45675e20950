// SPDX-License-Identifier: MIT
/* tok/bpe.c - byte-pair merging: repeatedly merges the pair with the lowest rank, the leftmost on
 * ties.
 *
 * Words of up to SHORT symbols (nearly all) are merged by examining every pair each time. Longer
 * ones use a linked list and a heap of rank << 32 | position. Stale heap entries are recognised
 * when they are popped: a pair never recurs at the same position, because its text only grows. */
#include "tok/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { SHORT = 48 };
#define NO_MERGE UINT64_MAX

int bpe_init(struct bpe *b, size_t n_merges, struct err *e) {
    size_t n = 64;
    while (n < n_merges * 2) n *= 2;
    b->slot = try_realloc(NULL, n, sizeof *b->slot, "the merges of a vocabulary", e);
    if (!b->slot) return ERR_SYS;
    memset(b->slot, 0xff, n * sizeof *b->slot);
    b->mask = n - 1;
    return 0;
}

void bpe_release(struct bpe *b) {
    free(b->slot);
    memset(b, 0, sizeof *b);
}

/* Returns the slot at which the search for a pair starts. */
static size_t first_slot(const struct bpe *b, uint32_t left, uint32_t right) {
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    return (size_t)(h ^ h >> 29) & b->mask;
}

void bpe_put(struct bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t id) {
    size_t i = first_slot(b, (uint32_t)left, (uint32_t)right);
    struct bpe_slot *s = &b->slot[i];
    while (s->left != UINT32_MAX && (s->left != (uint32_t)left || s->right != (uint32_t)right))
        s = &b->slot[i = (i + 1) & b->mask];
    *s = (struct bpe_slot){(uint32_t)left, (uint32_t)right, rank, (uint32_t)id};
}

/* Returns rank << 32 | merged id, or NO_MERGE if the two do not merge. */
static uint64_t look_up(const struct bpe *b, int32_t left, int32_t right) {
    size_t i = first_slot(b, (uint32_t)left, (uint32_t)right);
    for (;; i = (i + 1) & b->mask) {
        const struct bpe_slot *s = &b->slot[i];
        if (s->left == (uint32_t)left && s->right == (uint32_t)right)
            return (uint64_t)s->rank << 32 | s->id;
        if (s->left == UINT32_MAX) return NO_MERGE;
    }
}

/* Merges up to SHORT symbols in place; returns the remaining number. */
static size_t merge_short(const struct bpe *b, int32_t *sym, size_t n) {
    uint64_t pair[SHORT];
    for (size_t i = 0; i + 1 < n; i++) pair[i] = look_up(b, sym[i], sym[i + 1]);
    while (n > 1) {
        size_t at = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (pair[i] < pair[at]) at = i;
        if (pair[at] == NO_MERGE) break;
        sym[at] = (int32_t)(uint32_t)pair[at];
        memmove(sym + at + 1, sym + at + 2, (n - at - 2) * sizeof *sym);
        n--;
        if (at + 1 < n) {
            memmove(pair + at + 1, pair + at + 2, (n - at - 2) * sizeof *pair);
            pair[at] = look_up(b, sym[at], sym[at + 1]);
        }
        if (at > 0) pair[at - 1] = look_up(b, sym[at - 1], sym[at]);
    }
    return n;
}

/* ---- long words ------------------------------------------------------------------------------ */

/* Moves element i of a heap of n elements down to its place; the smallest is on top. */
static void sift_down(uint64_t *h, size_t n, size_t i) {
    uint64_t x = h[i];
    for (size_t c = 2 * i + 1; c < n; c = 2 * i + 1) {
        if (c + 1 < n && h[c + 1] < h[c]) c++;
        if (h[c] >= x) break;
        h[i] = h[c];
        i = c;
    }
    h[i] = x;
}

/* Adds x to the heap of *n elements; the smallest is on top. */
static void heap_push(struct bpe_work *w, size_t *n, uint64_t x) {
    size_t i = (*n)++;
    for (; i > 0 && w->heap[(i - 1) / 2] > x; i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = x;
}

/* Makes room for n symbols. The heap starts with n - 1 entries; each merge removes one and adds at
 * most two. */
static int work_reserve(struct bpe_work *w, size_t n, struct err *e) {
    if (w->cap >= 2 * n) return 0;
    int32_t *link = try_realloc(w->link, 2 * n, sizeof *w->link, "a long word of a text", e);
    if (!link) return ERR_SYS;
    w->link = link;
    uint64_t *heap = try_realloc(w->heap, 2 * n, sizeof *w->heap, "a long word of a text", e);
    if (!heap) return ERR_SYS;
    w->heap = heap;
    w->cap = 2 * n;
    return 0;
}

void bpe_work_release(struct bpe_work *w) {
    free(w->link);
    free(w->heap);
    memset(w, 0, sizeof *w);
}

/* Pushes the merge of the symbols at `at` and `next`, if there is one. */
static void push_pair(const struct bpe *b, struct bpe_work *w, size_t *n_heap, const int32_t *sym,
                      int32_t at, int32_t next) {
    uint64_t m = look_up(b, sym[at], sym[next]);
    if (m != NO_MERGE) heap_push(w, n_heap, (m & 0xffffffff00000000u) | (uint32_t)at);
}

/* Merges any number of symbols in place with a heap; *count becomes the remaining number. */
static int merge_long(const struct bpe *b, struct bpe_work *w, int32_t *sym, size_t *count,
                      struct err *e) {
    const size_t n = *count;
    TRY(work_reserve(w, n, e));
    int32_t *next = w->link, *prev = w->link + n;
    size_t n_heap = 0;
    for (size_t i = 0; i < n; i++) {
        next[i] = i + 1 < n ? (int32_t)(i + 1) : -1;
        prev[i] = (int32_t)i - 1;
        uint64_t m = i + 1 < n ? look_up(b, sym[i], sym[i + 1]) : NO_MERGE;
        if (m != NO_MERGE) w->heap[n_heap++] = (m & 0xffffffff00000000u) | i;
    }
    for (size_t i = n_heap / 2; i-- > 0;) sift_down(w->heap, n_heap, i);
    while (n_heap > 0) {
        uint64_t top = w->heap[0];
        w->heap[0] = w->heap[--n_heap];
        if (n_heap) sift_down(w->heap, n_heap, 0);
        int32_t at = (int32_t)(uint32_t)top;
        int32_t gone = sym[at] < 0 ? -1 : next[at];
        if (gone < 0) continue;
        uint64_t m = look_up(b, sym[at], sym[gone]);
        if (m == NO_MERGE || m >> 32 != top >> 32) continue;
        sym[at] = (int32_t)(uint32_t)m;
        sym[gone] = -1;
        next[at] = next[gone];
        if (next[at] >= 0) {
            prev[next[at]] = at;
            push_pair(b, w, &n_heap, sym, at, next[at]);
        }
        if (prev[at] >= 0) push_pair(b, w, &n_heap, sym, prev[at], at);
    }
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (sym[i] >= 0) sym[k++] = sym[i];
    *count = k;
    return 0;
}

int bpe_merge(const struct bpe *b, struct bpe_work *w, int32_t *sym, size_t *n, struct err *e) {
    if (*n > SHORT) return merge_long(b, w, sym, n, e);
    if (*n > 1) *n = merge_short(b, sym, *n);
    return 0;
}
