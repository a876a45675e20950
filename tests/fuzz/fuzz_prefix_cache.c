// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_prefix_cache.c - the tree of cached prefixes (serve/prefix_cache.c) compared with
 * a list: after any sequence of inserts, lookups and evictions, the tree finds the same entries as
 * a search of the list.
 *
 * An input is a list of steps. A byte selects the operation (its lowest bits), key and use, and the
 * number of tokens that follow; there are two different tokens, so each takes one bit. The first
 * byte selects whether sequences can be rewound. Sequences are empty: nothing is computed. */
#include <string.h>

#include "base/num.h"
#include "serve/prefix_cache.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/model.h"

enum { MOST = 32, LIST = 64 };
struct listed {
    int32_t ids[MOST];
    int64_t n;
    uint64_t key;
};
struct list {
    struct listed v[LIST];
    int n;
};

static void fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    abort();
}

static struct session *session(bool can_trim) {
    static struct session *s[2];
    static const char *const src[] = {"tests/golden/models/qwen35moe", "tests/golden/models/qwen3"};
    struct err e = {0};
    const struct session_opts so = {.guests = true, .n_ctx = 64};
    if (!s[can_trim]) fuzz_need(session_new(&s[can_trim], fuzz_model(src[can_trim]), &so, &e), &e);
    if (session_info(s[can_trim]).can_trim != can_trim) fail("not the model that was meant");
    return s[can_trim];
}

static int64_t same(const struct listed *a, const struct listed *b) {
    int64_t i = 0;
    while (i < a->n && i < b->n && a->ids[i] == b->ids[i]) i++;
    return a->key == b->key ? i : 0;
}

static void look(const struct prefix_cache *p, const struct list *l, const struct listed *x,
                 bool trim) {
    int64_t best = 0, seen = 0;
    for (int k = 0; k < l->n; k++) {
        const int64_t c = same(&l->v[k], x);
        seen = max_i64(seen, c);
        if (trim || (c == l->v[k].n && c < x->n)) best = max_i64(best, c);
    }
    const struct prefix_cache_match m = prefix_cache_match(p, x->ids, x->n, x->key);
    if (m.n != min_i64(best, x->n - 1)) fail("another length can be resumed");
    if (m.seen != seen) fail("another length was seen");
}

static void keep(struct prefix_cache *p, struct session *s, struct list *l, const struct listed *x,
                 enum prefix_cache_use use) {
    struct seq *q = NULL;
    struct err e;
    bool there = false;
    for (int k = 0; k < l->n && !there; k++) there = l->v[k].n == x->n && same(&l->v[k], x) == x->n;
    if (!there && l->n == LIST) return;
    fuzz_need(session_new_seq(s, 0, &q, &e), &e);
    prefix_cache_keep(p, x->ids, x->n, x->key, use, q);
    if (!there) l->v[l->n++] = *x;
}

/* Checks that, if sequences cannot be rewound, exactly one that can no longer be resumed was
 * evicted. */
static void drop(struct prefix_cache *p, struct list *l, bool trim) {
    int left = 0;
    if (prefix_cache_drop(p) != (l->n > 0)) fail("no cached entry was evicted");
    for (int k = 0; k < l->n; k++) {
        struct listed longer = l->v[k];
        longer.ids[longer.n++] = 7; /* nobody's */
        const int64_t n = prefix_cache_match(p, longer.ids, longer.n, longer.key).n;
        if (n > l->v[k].n) fail("it knows more than was kept");
        if (n == l->v[k].n) l->v[left++] = l->v[k];
    }
    if (l->n && (trim ? left >= l->n : left != l->n - 1)) fail("too much or too little was lost");
    l->n = left;
}

static bool count(void *ud, const struct prefix_cache_kept *k) {
    struct list *l = ud;
    const struct listed *found = NULL;
    struct listed x = {.n = k->n, .key = k->key};
    if (k->n >= MOST) fail("longer than anything that was kept");
    memcpy(x.ids, k->ids, (size_t)k->n * sizeof *k->ids);
    for (int i = 0; i < l->n && !found; i++)
        if (l->v[i].n == x.n && same(&l->v[i], &x) == x.n) found = &l->v[i];
    if (!found) fail("it has an entry that was not cached");
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct list l;
    if (size < 2) return 0;
    const bool trim = data[0] & 1;
    struct session *s = session(trim);
    struct prefix_cache *p = prefix_cache_new(s, NULL);
    const uint64_t empty = session_held_bytes(s);
    l.n = 0;
    for (size_t at = 1; at + 2 <= size;) {
        const uint8_t op = data[at], n = data[at + 1] % (MOST - 1) + 1;
        struct listed x = {.n = n, .key = op >> 2 & 1};
        at += 2;
        for (int i = 0; i < n; i++)
            x.ids[i] = at + (size_t)(i / 8) < size ? data[at + (size_t)(i / 8)] >> i % 8 & 1 : 0;
        at += (size_t)(n + 7) / 8;
        if ((op & 3) == 3)
            drop(p, &l, trim);
        else if ((op & 3) == 2)
            look(p, &l, &x, trim);
        else
            keep(p, s, &l, &x, (enum prefix_cache_use)((op >> 3) % (PREFIX_EVERY + 1)));
        if (!trim && prefix_cache_counts(p).n_kept != l.n) fail("another number is kept");
    }
    prefix_cache_show(p, count, &l);
    while (prefix_cache_drop(p)) continue;
    if (prefix_cache_counts(p).n_kept || prefix_cache_counts(p).n_tokens) fail("something is left");
    prefix_cache_free(p);
    if (session_held_bytes(s) != empty) fail("memory was not given back");
    return 0;
}
