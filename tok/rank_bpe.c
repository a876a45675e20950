// SPDX-License-Identifier: MIT
/* tok/rank_bpe.c - merges derived from the ranks of byte-level BPE. */
#include "tok/rank_bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

int rank_bpe_init(struct rank_bpe *k, struct tok *t, int64_t first, int64_t n, struct err *e) {
    *k = (struct rank_bpe){.t = t, .first = first, .n = n};
    k->bytes = xcalloc((size_t)n, sizeof *k->bytes);
    k->len = xcalloc((size_t)n, sizeof *k->len);
    k->rank_of = strmap_try_new((size_t)n, "the ranks of a vocabulary", e);
    return k->rank_of ? 0 : ERR_SYS;
}

void rank_bpe_release(struct rank_bpe *k) {
    free(k->bytes);
    free(k->len);
    strmap_free(k->rank_of);
    memset(k, 0, sizeof *k);
}

bool rank_bpe_put(struct rank_bpe *k, int64_t rank, const char *raw, size_t n) {
    struct vocab *v = &k->t->v;
    struct buf spelled = {0};
    k->bytes[rank] = arena_strndup(&v->arena, raw, n);
    k->len[rank] = (uint32_t)n;
    vocab_spell(&spelled, raw, n);
    vocab_set(v, k->first + rank, spelled.data, spelled.len, TT_NORMAL);
    buf_release(&spelled);
    return strmap_add(k->rank_of, k->bytes[rank], n, rank);
}

struct split {
    int64_t left, right;
};
/* Orders splits by the rank of the left part, then of the right, for qsort. */
static int by_ranks(const void *a, const void *b) {
    const struct split *x = a, *y = b;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return (x->right > y->right) - (x->right < y->right);
}

/* Appends the merge "left right"; *cap is the capacity of the list. */
static void add_merge(struct tok *t, int64_t *cap, const char *left, const char *right) {
    if (t->n_merges == *cap) {
        *cap = *cap ? 2 * *cap : 4096;
        t->merge = xreallocarray(t->merge, (size_t)*cap, sizeof *t->merge);
        t->merge_len = xreallocarray(t->merge_len, (size_t)*cap, sizeof *t->merge_len);
    }
    size_t a = strlen(left), b = strlen(right);
    char *s = arena_alloc(&t->v.arena, a + b + 2);
    memcpy(s, left, a);
    s[a] = ' ';
    memcpy(s + a + 1, right, b + 1);
    t->merge[t->n_merges] = s;
    t->merge_len[t->n_merges++] = (uint32_t)(a + b + 1);
}

int64_t rank_bpe_merges(struct rank_bpe *k) {
    int64_t cap = 0, lone = -1;
    for (int64_t r = 0; r < k->n; r++) {
        struct split s[RANK_BPE_TOKEN];
        size_t n = 0;
        for (uint32_t at = 1; at < k->len[r]; at++) {
            int64_t left = strmap_get(k->rank_of, k->bytes[r], at);
            int64_t right = strmap_get(k->rank_of, k->bytes[r] + at, k->len[r] - at);
            if (left >= 0 && right >= 0) s[n++] = (struct split){left, right};
        }
        if (!n && k->len[r] > 1 && lone < 0) lone = r;
        qsort(s, n, sizeof *s, by_ranks);
        for (size_t i = 0; i < n; i++)
            add_merge(k->t, &cap, k->t->v.text[k->first + s[i].left],
                      k->t->v.text[k->first + s[i].right]);
    }
    return lone;
}
