// SPDX-License-Identifier: MIT
/* grammar/mask.c - token masks. Whether a token is allowed does not depend on the stack if it stays
 * within the regular part of an item. One walk of the vocabulary per state finds all these tokens,
 * which are cached as a "leaf". The walk also records each trie node where the part may end within
 * a token; only the tokens below such a node are checked with the actual stack. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grammar/gram_int.h"

enum { WORDS = 32, EXITS_MAX = 1 << 15, LEAF_BUCKETS = 4096 };

struct gleaf {
    gnode node;
    struct gleaf *next;
    uint32_t *bits; /* NULL: few tokens; `id` lists them */
    int32_t *id;
    uint32_t n;
    const struct gtrie *t;
    uint32_t *exit, n_exit; /* nodes of t where the part may end within a token */
    bool whole;             /* too many exits to store: walk the whole trie */
    size_t bytes;
};

/* Sets the bits of the tokens [from, to) of the trie. */
static void set_tokens(const struct gtrie *t, uint32_t from, uint32_t to, uint32_t *bits) {
    for (; from < to; from++) {
        const uint32_t id = (uint32_t)t->id[from];
        bits[id / WORDS] |= 1u << id % WORDS;
    }
}

/* ---- leaves ---- */

/* Adds trie node i, where the regular part may end, to the leaf's exits. If there are too many,
 * sets `whole`. */
static void note_exit(struct gleaf *l, uint32_t i) {
    if (l->n_exit == EXITS_MAX) l->whole = true;
    if (l->whole) return;
    if ((l->n_exit & (l->n_exit - 1)) == 0)
        l->exit = xreallocarray(l->exit, l->n_exit ? 2 * l->n_exit : 1, sizeof *l->exit);
    l->exit[l->n_exit++] = i;
}

enum { SMALL = 4096 }; /* subtrees up to this size are walked without gram_fit() */
struct placement {     /* a level of the walk */
    gnode node;
    const uint32_t *row;  /* NULL: not computed yet */
    uint8_t kinds, chars; /* gnode_data's, of the state after the last complete character */
};

/* Returns the level for state s, reached at node i of trie t; `above`: the level of its parent. */
static struct placement placement_at(struct grammar *g, gnode s, const struct gtrie *t, uint32_t i,
                                     const struct placement *above) {
    struct placement p = {s, s < g->cap_row ? g->row[s] : NULL, 0, 0};
    const bool ends = t->chars[i] & GRAM_ODD;
    if (!ends) {
        p.kinds = above->kinds;
        p.chars = above->chars;
    } else if (t->v[i].skip - i > SMALL || gn(g, s)->flags & GF_FIT) {
        if (!(gn(g, s)->flags & GF_FIT)) gram_fit(g, s);
        p.kinds = gn(g, s)->kinds;
        p.chars = gn(g, s)->chars;
        p.row = s < g->cap_row ? g->row[s] : NULL;
    }
    return p;
}

/* Walks the trie l->t from the state l->node. Sets the bits of the allowed tokens, and records in l
 * the nodes where the part may end within a token. Cached rows of derivatives are used directly. If
 * the state allows all characters of a subtree, all its tokens are added at once. */
static void walk_leaf(struct grammar *g, struct gleaf *l, uint32_t *bits) {
    const struct gtrie *t = l->t;
    struct placement *at = xmalloc((g->v->longest + 2) * sizeof *at);
    gram_fit(g, l->node);
    at[0] = (struct placement){l->node, NULL, gn(g, l->node)->kinds, gn(g, l->node)->chars};
    for (uint32_t i = 0; i < t->n && gram_spend(g, 1);) {
        const struct gtrie_node *x = &t->v[i];
        struct placement *p = &at[x->depth - 1];
        if (!(x->kinds & ~p->kinds) && (t->chars[i] & GRAM_CHARS_MAX) <= p->chars) {
            set_tokens(t, x->first, t->v[x->skip].first, bits);
            i = x->skip;
            continue;
        }
        const int cls = g->cls[x->byte];
        gnode s;
        if (p->row && p->row[cls]) {
            s = p->row[cls] - 1;
        } else {
            s = gn_step(g, p->node, cls);
            p->row = g->full ? NULL : g->row[p->node];
        }
        if (s == G_NONE) {
            i = x->skip;
            continue;
        }
        set_tokens(t, x->first, x[1].first, bits);
        if (gn_null(g, s) && x->skip > i + 1) note_exit(l, i);
        at[x->depth] = placement_at(g, s, t, i, p);
        i = s == G_EPS ? x->skip : i + 1;
    }
    free(at);
}

/* Stores the allowed tokens as bits or, if they are few, as a list. */
static void keep_bits(struct gleaf *l, const uint32_t *bits, size_t n_words) {
    uint32_t n = 0;
    for (size_t w = 0; w < n_words; w++) n += (uint32_t)__builtin_popcount(bits[w]);
    l->n = n;
    if (n >= n_words) {
        l->bits = xmalloc(n_words * sizeof *bits);
        memcpy(l->bits, bits, n_words * sizeof *bits);
    } else {
        l->id = xmalloc((n + 1) * sizeof *l->id);
        n = 0;
        for (size_t w = 0; w < n_words; w++)
            for (uint32_t x = bits[w]; x; x &= x - 1)
                l->id[n++] = (int32_t)(w * WORDS) + __builtin_ctz(x);
    }
    l->bytes = sizeof *l + (size_t)l->n_exit * 2 * sizeof *l->exit +
               (l->bits ? n_words : l->n) * sizeof *bits;
}

static void leaf_free(struct gleaf *l) {
    free(l->bits);
    free(l->id);
    free(l->exit);
    free(l);
}

void gram_masks_free(struct grammar *g) {
    for (uint32_t i = 0; i < g->n_leaf_bucket; i++)
        for (struct gleaf *l = g->leaf[i], *next; l; l = next) {
            next = l->next;
            leaf_free(l);
        }
    free(g->leaf);
    g->leaf = NULL;
    g->n_leaf_bucket = 0;
    g->leaf_bytes = 0;
}

/* Calls cut() for each range [from, to) of trie nodes that state `wide` allows and state `node`
 * does not: whole subtrees and, with `exits`, single nodes where only `wide` can end. */
static void walk_lost(struct grammar *g, const struct gtrie *t, gnode wide, gnode node, bool exits,
                      void (*cut)(void *ud, uint32_t from, uint32_t to), void *ud) {
    struct pair {
        gnode wide, node;
    } *at = xmalloc((g->v->longest + 2) * sizeof *at);
    at[0] = (struct pair){wide, node};
    for (uint32_t i = 0; i < t->n && gram_spend(g, 1);) {
        const struct gtrie_node *x = &t->v[i];
        const struct pair p = at[x->depth - 1];
        const gnode w = gn_step(g, p.wide, g->cls[x->byte]),
                    s = w ? gn_step(g, p.node, g->cls[x->byte]) : (gnode)G_NONE;
        if (w != s && !s) cut(ud, i, x->skip);
        if (s && exits && gn_null(g, w) && !gn_null(g, s)) cut(ud, i, i + 1);
        at[x->depth] = (struct pair){w, s};
        i = w == s || !s ? x->skip : i + 1;
    }
    free(at);
}

struct lost { /* context of cut_tokens() and cut_exits() */
    const struct gtrie *t;
    uint32_t *bits;
    struct gleaf *l;
    const struct gleaf *wide;
    uint32_t at; /* exits of the wide leaf processed so far */
};
/* Clears the bits of the tokens that end at trie nodes [from, to). */
static void cut_tokens(void *ud, uint32_t from, uint32_t to) {
    const struct lost *o = ud;
    for (uint32_t i = o->t->v[from].first; i < o->t->v[to].first; i++) {
        const uint32_t id = (uint32_t)o->t->id[i];
        o->bits[id / WORDS] &= ~(1u << id % WORDS);
    }
}
/* Copies the exits that precede trie node `from`, and skips those in [from, to). */
static void cut_exits(void *ud, uint32_t from, uint32_t to) {
    struct lost *o = ud;
    for (; o->at < o->wide->n_exit && o->wide->exit[o->at] < from; o->at++)
        note_exit(o->l, o->wide->exit[o->at]);
    while (o->at < o->wide->n_exit && o->wide->exit[o->at] < to) o->at++;
}

static const struct gleaf *leaf_of(struct grammar *g, gnode node);

/* Computes the leaf of l->node from that of the wider language `wide`, by removing tokens and
 * exits. */
static void leaf_less(struct grammar *g, struct gleaf *l, gnode wide, uint32_t *bits) {
    const struct gleaf *from = leaf_of(g, wide);
    struct lost o = {.t = &g->v->all, .bits = bits, .l = l, .wide = from};
    l->t = from->t;
    l->whole = from->whole;
    if (from->bits) memcpy(bits, from->bits, g->v->n_words * sizeof *bits);
    for (uint32_t i = 0; !from->bits && i < from->n; i++)
        bits[from->id[i] / WORDS] |= 1u << from->id[i] % WORDS;
    walk_lost(g, o.t, wide, l->node, false, cut_tokens, &o);
    walk_lost(g, l->t, wide, l->node, true, cut_exits, &o);
    cut_exits(&o, UINT32_MAX, UINT32_MAX);
}

/* Computes which tokens a regular node allows. */
static struct gleaf *leaf_make(struct grammar *g, gnode node) {
    const struct gram_vocab *v = g->v;
    struct gleaf *l = xcalloc(1, sizeof *l);
    uint32_t *bits = xcalloc(v->n_words, sizeof *bits);
    l->node = node;
    const gnode wide = gram_wider(g, node);
    if (wide != node) {
        leaf_less(g, l, wide, bits);
        keep_bits(l, bits, v->n_words);
        free(bits);
        return l;
    }
    l->t = &v->all;
    int chars;
    const int k = gram_slice_of(g, node, &chars);
    if (k >= 0) {
        memcpy(bits, v->slice[k].bits[chars], v->n_words * sizeof *bits);
        l->t = &v->slice[k].rest;
    }
    walk_leaf(g, l, bits);
    keep_bits(l, bits, v->n_words);
    free(bits);
    return l;
}

/* Returns the cached tokens of a regular node, computing them if needed. */
static const struct gleaf *leaf_of(struct grammar *g, gnode node) {
    if (!g->leaf) {
        g->leaf = xcalloc(LEAF_BUCKETS, sizeof *g->leaf);
        g->n_leaf_bucket = LEAF_BUCKETS;
    }
    for (struct gleaf *l = g->leaf[node % LEAF_BUCKETS]; l; l = l->next)
        if (l->node == node) return l;
    struct gleaf *l = leaf_make(g, node);
    if (g->leaf_bytes + l->bytes > GRAM_MASKS_MAX) {
        gram_masks_free(g);
        g->leaf = xcalloc(LEAF_BUCKETS, sizeof *g->leaf);
        g->n_leaf_bucket = LEAF_BUCKETS;
    }
    g->leaf_bytes += l->bytes;
    l->next = g->leaf[node % LEAF_BUCKETS];
    g->leaf[node % LEAF_BUCKETS] = l;
    return l;
}

/* ---- masks ---- */

/* Walks the trie nodes [from, to) of t with full positions, and sets the bits of the allowed
 * tokens. The position at their parent is in g->scratch, at its depth. */
static void walk(struct grammar *g, const struct gtrie *t, uint32_t from, uint32_t to,
                 uint32_t *bits) {
    for (uint32_t i = from; i < to && !g->full && !g->unsure;) {
        const struct gtrie_node *x = &t->v[i];
        struct gconf *out = &g->scratch[x->depth];
        gconf_step(g, &g->scratch[x->depth - 1], x->byte, out);
        if (gconf_dead(out)) {
            i = x->skip;
            continue;
        }
        set_tokens(t, x->first, x[1].first, bits);
        i++;
    }
}

/* Walks the tokens below node i of l->t, at which the regular part ends; *after: the position at
 * that node. */
static void walk_exit(struct grammar *g, const struct gleaf *l, uint32_t i,
                      const struct gconf *after, uint32_t *bits) {
    const struct gtrie_node *x = &l->t->v[i];
    gconf_copy(&g->scratch[x->depth], after);
    walk(g, l->t, i + 1, x->skip, bits);
}

/* Adds to bits the tokens that item `it` of c allows. */
static void mask_item(struct grammar *g, const struct gconf *c, const struct gitem *it,
                      uint32_t *bits) {
    const struct gleaf *l = leaf_of(g, it->head);
    if (l->bits)
        for (size_t w = 0; w < g->v->n_words; w++) bits[w] |= l->bits[w];
    else
        for (uint32_t i = 0; i < l->n; i++) bits[l->id[i] / WORDS] |= 1u << l->id[i] % WORDS;
    if (it->tail == 0) return;
    g->unsure = false;
    if (l->whole) {
        gconf_copy(&g->scratch[0], c);
        g->scratch[0].n = 1;
        g->scratch[0].can_end = false;
        g->scratch[0].it[0] = *it;
        walk(g, &g->v->all, 0, g->v->all.n, bits);
        return;
    }
    struct gconf *behind = xmalloc(sizeof *behind);
    gconf_pop(g, it->tail, NULL, behind);
    for (uint32_t i = 0; i < l->n_exit && behind->n; i++) {
        g->unsure = false;
        walk_exit(g, l, l->exit[i], behind, bits);
        if (!g->unsure) continue;
        /* The token continues in the same object, so the name that it completes must be known. */
        const struct gtrie_node *x = &l->t->v[l->exit[i]];
        size_t n;
        const char *s = gram_token(g->v, l->t->id[x->first], &n);
        struct gname name = {0};
        gname_copy(&name, &c->name);
        for (uint32_t k = 0; k < x->depth; k++) gname_add(&name, (uint8_t)s[k]);
        struct gconf *known = xmalloc(sizeof *known);
        gconf_pop(g, it->tail, &name, known);
        g->unsure = false;
        walk_exit(g, l, l->exit[i], known, bits);
        free(known);
    }
    g->unsure = false;
    free(behind);
}

/* Locks the grammar and begins a call with its own limit of steps. */
static void lock_in(const struct gram_state *s) {
    pthread_mutex_lock(&s->g->lock);
    gram_call(s->g);
}
/* Ends the call and unlocks the grammar. */
static void lock_out(const struct gram_state *s) {
    gram_call_end(s->g);
    pthread_mutex_unlock(&s->g->lock);
}

int gram_mask(const struct gram_state *s, uint32_t *bits, struct err *e) {
    struct grammar *g = s->g;
    const struct gram_vocab *v = g->v;
    memset(bits, 0, v->n_words * sizeof *bits);
    if (s->ended) return 0;
    lock_in(s);
    for (int i = 0; i < s->c.n; i++) mask_item(g, &s->c, &s->c.it[i], bits);
    const int rc = grammar_full(g, e);
    lock_out(s);
    for (int i = 0; i < v->n_end && s->c.can_end; i++)
        bits[v->end[i] / WORDS] |= 1u << v->end[i] % WORDS;
    return rc;
}

/* ---- one answer ---- */

struct gram_state *gram_begin(struct grammar *g) {
    struct gram_state *s = xcalloc(1, sizeof *s);
    s->g = g;
    lock_in(s);
    gconf_start(g, &s->c);
    lock_out(s);
    return s;
}

struct gram_state *gram_copy(const struct gram_state *s) {
    struct gram_state *c = xmalloc(sizeof *c);
    c->g = s->g;
    c->ended = s->ended;
    gconf_copy(&c->c, &s->c);
    return c;
}

void gram_end(struct gram_state *s) {
    free(s);
}

/* Advances c past n bytes. Returns false if they are not allowed or a limit was reached. */
static bool move(struct grammar *g, struct gconf *c, const char *s, size_t n) {
    struct gconf next;
    for (size_t i = 0; i < n; i++) {
        gconf_step(g, c, (uint8_t)s[i], &next);
        if (gconf_dead(&next) || g->full) return false;
        gconf_copy(c, &next);
    }
    return true;
}

/* Returns whether the token may come next, and sets *c to the position after it. Where the text may
 * end, an end token ends the answer; elsewhere its text must match, because some models use the
 * marker that closes a call as an end token. */
static bool behind(const struct gram_state *s, int32_t id, struct gconf *c) {
    const struct gram_vocab *v = s->g->v;
    size_t n;
    if (id < 0 || id >= v->n || s->ended) return false;
    gconf_copy(c, &s->c);
    if (v->is_end[id] && s->c.can_end) return true;
    const char *t = gram_token(v, id, &n);
    lock_in(s);
    const bool ok = n > 0 && move(s->g, c, t, n);
    lock_out(s);
    return ok;
}

bool gram_allows(const struct gram_state *s, int32_t id) {
    struct gconf c;
    return behind(s, id, &c);
}

int gram_accept(struct gram_state *s, int32_t id, struct err *e) {
    struct gconf c;
    if (!behind(s, id, &c)) {
        TRY(grammar_full(s->g, e));
        return err_set(e, ERR_USAGE, "the grammar does not allow token %" PRId32 " here", id);
    }
    s->ended = s->g->v->is_end[id] && (s->c.can_end || c.can_end);
    gconf_copy(&s->c, &c);
    return 0;
}

bool gram_ended(const struct gram_state *s) {
    return s->ended;
}

int gram_accept_text(struct gram_state *s, const char *text, size_t n, struct err *e) {
    struct gconf c;
    gconf_copy(&c, &s->c);
    lock_in(s);
    const bool ok = !s->ended && move(s->g, &c, text, n);
    lock_out(s);
    if (!ok) {
        TRY(grammar_full(s->g, e));
        return err_set(e, ERR_USAGE, "the grammar does not allow this text");
    }
    gconf_copy(&s->c, &c);
    return 0;
}

/* Returns the only byte that can follow, or -1 if there is not exactly one or the text may end. */
static int only_byte(struct grammar *g, const struct gconf *c) {
    int found = -1;
    if (c->can_end) return -1;
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < g->n_cls; k++) {
            if (g->rep[k] == found || gn_step(g, c->it[i].head, k) == G_NONE) continue;
            if (found >= 0 || g->cls_size[k] > 1) return -1;
            found = g->rep[k];
        }
    return found;
}

void gram_forced(const struct gram_state *s, size_t most, struct buf *out) {
    struct gconf c, next;
    int b;
    if (s->ended) return;
    gconf_copy(&c, &s->c);
    lock_in(s);
    while (most-- > 0 && (b = only_byte(s->g, &c)) >= 0 && b != GRAM_TOKEN) {
        buf_chr(out, (char)(uint8_t)b);
        gconf_step(s->g, &c, (uint8_t)b, &next);
        gconf_copy(&c, &next);
    }
    lock_out(s);
}

bool gram_may_end(const struct gram_state *s) {
    return s->ended || s->c.can_end;
}
bool gram_must_end(const struct gram_state *s) {
    return s->ended || (s->c.can_end && s->c.n == 0);
}

size_t grammar_bytes(struct grammar *g) {
    return g->bytes + g->leaf_bytes;
}
