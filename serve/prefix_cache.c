// SPDX-License-Identifier: MIT
/* serve/prefix_cache.c - the radix tree of cached sequences.
 *
 * A node is a run of tokens that follows its parent's run; a sequence may be stored at the end of a
 * run. Every leaf has one, and a node without one has at least two children, so the tree's size
 * depends only on the number of sequences.
 *
 * The least valuable entry is dropped first. An entry's value per byte is the time to recompute it
 * from the nearest sequence above it, halved for every ten minutes without use and weighted by the
 * entry's kind and number of hits. */
#include "serve/prefix_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"

enum { MAX_KEPT = 4096, MAX_PIECE = 256 };
#define HALF_LIFE_S 600.0

struct node {
    int32_t *ids;   /* [n] */
    int64_t n, end; /* end: number of tokens from the root to the end of this run */
    struct node *parent, *child, *next; /* next: sibling */
    uint64_t key;                       /* in a root, which has no tokens: the key of its entries */
    struct seq *q;                      /* NULL: no sequence stored */
    enum prefix_cache_use use;
    double last_s;
    int64_t n_hits;
};
struct prefix_cache {
    struct session *s;
    const struct tok *tok;
    bool can_trim;
    struct node *roots;
    struct prefix_cache_counts n;
};

struct prefix_cache *prefix_cache_new(struct session *s, const struct tok *t) {
    struct prefix_cache *p = xcalloc(1, sizeof *p);
    p->s = s;
    p->tok = t;
    p->can_trim = session_info(s).can_trim;
    return p;
}

/* Frees the node's kept state, if any. */
static void forget_state(struct prefix_cache *p, struct node *x) {
    if (!x->q) return;
    seq_free(x->q);
    x->q = NULL;
    p->n.n_kept--;
    p->n.n_tokens -= x->end;
}

/* Frees x, its siblings after it, and everything below them. */
static void free_nodes(struct prefix_cache *p, struct node *x) {
    while (x) { /* children are prepended to the list instead of recursing */
        struct node *next = x->next;
        if (x->child) {
            struct node *last = x->child;
            while (last->next) last = last->next;
            last->next = next;
            next = x->child;
        }
        forget_state(p, x);
        free(x->ids);
        free(x);
        x = next;
    }
}

void prefix_cache_free(struct prefix_cache *p) {
    if (!p) return;
    free_nodes(p, p->roots);
    free(p);
}

/* Returns the tree of an API key; NULL: it has no tree yet. */
static struct node *root_of(const struct prefix_cache *p, uint64_t key) {
    struct node *r = p->roots;
    while (r && r->key != key) r = r->next;
    return r;
}

/* ---- lookup ---- */

struct placement { /* a position in a run of tokens */
    const struct node *x;
    int64_t end;      /* tree tokens before this position */
    int64_t n_prompt; /* prompt tokens that have the same bytes */
};
struct walk {
    const struct prefix_cache *p;
    const int32_t *ids;
    int64_t n;
    enum prefix_cache_how how;
    struct placement best; /* where a sequence can resume */
    int64_t seen;
};
struct cursor {
    int64_t at; /* prompt tokens consumed */
    int n_over; /* bytes of these that no tree token has matched yet */
    unsigned char over[MAX_PIECE];
};

/* Returns whether a token has no text of its own. */
static bool is_control(const struct tok *t, int32_t id) {
    struct buf b = {0};
    if (id < 0) return true; /* a row of an image */
    tok_decode(t, id, false, &b);
    const bool none = !b.len;
    buf_release(&b);
    return none;
}

/* Consumes prompt tokens until they cover the bytes of the tree token id. Returns false if the
 * bytes differ. Control tokens match only themselves. */
static bool same_bytes(const struct walk *w, struct cursor *c, int32_t id) {
    struct buf want = {0}, have = {0};
    bool same = !is_control(w->p->tok, id);
    tok_decode(w->p->tok, id, true, &want);
    buf_add(&have, c->over, (size_t)c->n_over);
    while (same && have.len < want.len) {
        same = c->at < w->n && !is_control(w->p->tok, w->ids[c->at]);
        if (same) tok_decode(w->p->tok, w->ids[c->at++], true, &have);
    }
    same = same && have.len - want.len <= MAX_PIECE && want.len &&
           memcmp(have.data, want.data, want.len) == 0;
    if (same) {
        c->n_over = (int)(have.len - want.len);
        memcpy(c->over, have.data + want.len, (size_t)c->n_over);
    }
    buf_release(&want);
    buf_release(&have);
    return same;
}

/* Moves past a cached token if the prompt continues with the same token or bytes. False: they
 * differ. */
static bool step_cursor(const struct walk *w, struct cursor *c, int32_t id) {
    if (!c->n_over && c->at < w->n && w->ids[c->at] == id) {
        c->at++;
        return true;
    }
    return w->how == PREFIX_BYTES && same_bytes(w, c, id);
}

/* Records that the first `at` prompt tokens have the same bytes as the first `end` tree tokens,
 * which end in node x. The position is a candidate if a sequence can resume there. */
static void note_candidate(struct walk *w, const struct node *x, int64_t end, int64_t at) {
    const bool inside = at && at < w->n && w->ids[at - 1] < 0 && w->ids[at] < 0; /* an image */
    const bool can = !inside && (w->p->can_trim || (x->q && end == x->end));
    w->seen = max_i64(w->seen, at);
    if (can && end && at < w->n && at > w->best.n_prompt) w->best = (struct placement){x, end, at};
}

/* Matches the prompt, starting at c, with a node's run and then with its children. */
static void descend(struct walk *w, const struct node *x, struct cursor c) {
    for (int64_t i = 0; i < x->n; i++) {
        if (!step_cursor(w, &c, x->ids[i])) return;
        if (!c.n_over) note_candidate(w, x, x->end - x->n + i + 1, c.at);
    }
    for (const struct node *k = x->child; k; k = k->next) descend(w, k, c);
}

/* Walks the tree of `key` along the prompt. how: whether to compare tokens or bytes. */
static struct walk match_prompt(const struct prefix_cache *p, const int32_t *ids, int64_t n,
                                uint64_t key, enum prefix_cache_how how) {
    struct walk w = {.p = p, .ids = ids, .n = n, .how = p->tok ? how : PREFIX_IDS};
    const struct node *r = root_of(p, key);
    const struct cursor begin = {0};
    for (const struct node *k = r ? r->child : NULL; k; k = k->next) descend(&w, k, begin);
    return w;
}

struct prefix_cache_match prefix_cache_match(const struct prefix_cache *p, const int32_t *ids,
                                             int64_t n, uint64_t key) {
    const struct walk w = match_prompt(p, ids, n, key, PREFIX_IDS);
    return (struct prefix_cache_match){w.best.n_prompt, w.seen};
}

/* Appends to out the first `end` tokens on the path from the root to x. Returns the root. */
static const struct node *path_tokens(const struct node *x, int64_t end, struct ids *out) {
    for (int64_t i = 0; i < end; i++) ids_add(out, 0);
    for (; x->parent; x = x->parent) {
        const int64_t from = x->end - x->n;
        memcpy(out->v + from, x->ids, (size_t)(end - from) * sizeof *out->v);
        end = from;
    }
    return x;
}

/* Replaces the matched tokens of the prompt by those of the tree. */
static void rewrite(struct ids *all, const struct placement *at) {
    struct ids out = {0};
    (void)path_tokens(at->x, at->end, &out);
    for (int64_t i = at->n_prompt; i < all->n; i++) ids_add(&out, all->v[i]);
    ids_release(all);
    *all = out;
}

/* Returns a node whose sequence contains all tokens up to this position, or NULL. */
static struct node *holder(const struct placement *at) {
    struct node *x = (struct node *)(uintptr_t)at->x;
    while (x && !x->q) x = x->child; /* every leaf has one */
    return x;
}

int prefix_cache_take(struct prefix_cache *p, struct ids *all, uint64_t key,
                      enum prefix_cache_how how, int64_t n_max, struct seq **out,
                      struct prefix_cache_match *m, struct err *e) {
    struct walk w = match_prompt(p, all->v, all->n, key, how);
    *out = NULL;
    if (all->n + w.best.end - w.best.n_prompt > n_max)
        w = match_prompt(p, all->v, all->n, key, PREFIX_IDS);
    *m = (struct prefix_cache_match){0, w.seen};
    struct node *x = w.best.x ? holder(&w.best) : NULL;
    if (!x) return 0;
    TRY(seq_fork(out, x->q, e));
    const int rc = seq_trim(*out, w.best.end, e);
    if (rc) {
        seq_free(*out);
        *out = NULL;
        return rc;
    }
    x->last_s = progress_now_s();
    x->n_hits++;
    m->n = w.best.n_prompt;
    if (how == PREFIX_BYTES) rewrite(all, &w.best);
    return 0;
}

/* ---- storing ---- */

/* Returns a new node with n tokens, added to the parent's children; parent NULL: a root. */
static struct node *new_node(struct node *parent, const int32_t *ids, int64_t n) {
    struct node *x = xcalloc(1, sizeof *x);
    x->ids = xcalloc((size_t)n + 1, sizeof *x->ids);
    if (n) memcpy(x->ids, ids, (size_t)n * sizeof *ids);
    x->n = n;
    x->end = (parent ? parent->end : 0) + n;
    x->parent = parent;
    if (parent) {
        x->next = parent->child;
        parent->child = x;
    }
    return x;
}

/* Splits node x: its first `at` tokens become its new parent, which is returned. */
static struct node *split(struct node *x, int64_t at) {
    struct node *parent = x->parent, **link = &parent->child;
    while (*link != x) link = &(*link)->next;
    *link = x->next;
    struct node *top = new_node(parent, x->ids, at);
    memmove(x->ids, x->ids + at, (size_t)(x->n - at) * sizeof *x->ids);
    x->n -= at;
    x->parent = top;
    x->next = NULL;
    top->child = x;
    return top;
}

/* Returns the node below x at which ids[0..n) ends; creates it if needed. */
static struct node *node_at(struct node *x, const int32_t *ids, int64_t n) {
    while (x->end < n) {
        struct node *k = x->child;
        while (k && k->ids[0] != ids[x->end]) k = k->next;
        if (!k) return new_node(x, ids + x->end, n - x->end);
        int64_t same = 0;
        while (same < k->n && x->end + same < n && k->ids[same] == ids[x->end + same]) same++;
        x = same < k->n ? split(k, same) : k;
    }
    return x;
}

/* Restores the tree's form at x and above: removes leaves without a sequence, and merges a node
 * without a sequence with its only child. */
static void tidy(struct node *x) {
    while (x->parent && !x->q && !x->child) {
        struct node *up = x->parent, **link = &up->child;
        while (*link != x) link = &(*link)->next;
        *link = x->next;
        free(x->ids);
        free(x);
        x = up;
    }
    struct node *k = x->child;
    if (!x->parent || x->q || !k || k->next) return;
    int32_t *ids = xcalloc((size_t)(x->n + k->n), sizeof *ids);
    memcpy(ids, x->ids, (size_t)x->n * sizeof *ids);
    memcpy(ids + x->n, k->ids, (size_t)k->n * sizeof *ids);
    free(k->ids);
    k->ids = ids;
    k->n += x->n;
    struct node **link = &x->parent->child;
    while (*link != x) link = &(*link)->next;
    *link = k;
    k->next = x->next;
    k->parent = x->parent;
    free(x->ids);
    free(x);
}

/* Drops the nearest sequence above x, which the longer one at x makes redundant. Only for sequences
 * that can be trimmed. */
static void drop_covered(struct prefix_cache *p, struct node *x) {
    for (struct node *up = x->parent; up;) {
        struct node *next = up->parent;
        if (up->q) {
            if (up->use == PREFIX_HEAD) x->use = PREFIX_HEAD;
            x->n_hits += up->n_hits;
            forget_state(p, up);
            tidy(up);
            return; /* any further up have been dropped before */
        }
        up = next;
    }
}

void prefix_cache_keep(struct prefix_cache *p, const int32_t *ids, int64_t n, uint64_t key,
                       enum prefix_cache_use use, struct seq *q) {
    struct node *r = root_of(p, key);
    if (n < 1) {
        seq_free(q);
        return;
    }
    while (p->n.n_kept >= MAX_KEPT && prefix_cache_drop(p)) r = root_of(p, key);
    if (!r) {
        r = new_node(NULL, NULL, 0);
        r->key = key;
        r->next = p->roots;
        p->roots = r;
    }
    struct node *x = node_at(r, ids, n);
    const bool had = x->q != NULL;
    const enum prefix_cache_use was = x->use;
    x->last_s = progress_now_s();
    if (p->can_trim && x->child) { /* the sequence of a descendant contains this one */
        seq_free(q);
        tidy(x);
        return;
    }
    forget_state(p, x);
    x->q = q;
    x->use = had && was == PREFIX_HEAD ? was : use;
    p->n.n_kept++;
    p->n.n_tokens += x->end;
    if (p->can_trim) drop_covered(p, x);
}

/* Returns the value of a kept state per byte; the state with the lowest is dropped first. */
static double worth_of(const struct prefix_cache *p, const struct node *x, double now) {
    static const double by_use[] = {1, 1.5, 4, 1, 0.25};
    const struct node *up = x->parent;
    while (up && !up->q) up = up->parent;
    const int64_t from = up ? up->end : 0;
    const double bytes = (double)(session_seq_bytes(p->s, x->end) - session_seq_bytes(p->s, from)) +
                         (double)session_seq_bytes(p->s, 1);
    return (double)(x->end - from) * exp2((x->last_s - now) / HALF_LIFE_S) * by_use[x->use] *
           (double)(1 + x->n_hits) / bytes;
}

/* Returns the next node in depth-first order, or NULL after the last one. */
static struct node *after(struct node *x) {
    if (x->child) return x->child;
    while (x && !x->next) x = x->parent;
    return x ? x->next : NULL;
}

void prefix_cache_show(const struct prefix_cache *p, prefix_cache_show_fn fn, void *ud) {
    bool more = true;
    for (struct node *x = p->roots; x && more; x = after(x)) {
        if (!x->q) continue;
        struct ids ids = {0};
        const struct node *root = path_tokens(x, x->end, &ids);
        more = fn(ud, &(struct prefix_cache_kept){ids.v, x->end, root->key, x->use, x->q});
        ids_release(&ids);
    }
}

bool prefix_cache_drop(struct prefix_cache *p) {
    const double now = progress_now_s();
    struct node *least = NULL;
    double least_worth = 0;
    for (struct node *x = p->roots; x; x = after(x)) {
        const double v = x->q ? worth_of(p, x, now) : 0;
        if (!x->q || (least && v >= least_worth)) continue;
        least = x;
        least_worth = v;
    }
    if (!least) return false;
    forget_state(p, least);
    tidy(least);
    p->n.n_dropped++;
    return true;
}

struct prefix_cache_counts prefix_cache_counts(const struct prefix_cache *p) {
    return p->n;
}
