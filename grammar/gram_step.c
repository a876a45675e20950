// SPDX-License-Identifier: MIT
/* grammar/gram_step.c - positions in a text. A position is a set of items; an item is the state of
 * a regular part and a stack of the nodes that follow it. Stacks are hash-consed and share their
 * tails; the items at the top of each stack are cached. */
#include "grammar/gram_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { TAILS_MAX = 1 << 20, EXPAND_MAX = 2000 };

/* ---- stacks ---- */

static uint32_t hash_tail(gnode node, uint32_t parent) {
    const uint64_t h = ((uint64_t)node << 32 | parent) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32);
}

/* Doubles the hash table of tails. */
static void grow_tails(struct grammar *g) {
    const uint32_t n = g->n_tail_bucket ? g->n_tail_bucket * 2 : 256;
    g->bytes += (size_t)(n - g->n_tail_bucket) * sizeof *g->tail_bucket;
    free(g->tail_bucket);
    g->tail_bucket = xcalloc(n, sizeof *g->tail_bucket);
    g->n_tail_bucket = n;
    for (uint32_t i = 1; i < g->n_tail; i++) {
        const uint32_t h = hash_tail(g->tail[i].node, g->tail[i].parent) & (n - 1);
        g->tail[i].chain = g->tail_bucket[h];
        g->tail_bucket[h] = i;
    }
}

/* Pushes `node` onto the stack `parent` and returns the new stack. Returns GRAM_INF if it would be
 * too deep or exceed the memory limit. */
static uint32_t push(struct grammar *g, gnode node, uint32_t parent) {
    if (node == G_EPS) return parent;
    if (g->n_tail == 0) g->n_tail = 1;
    if (g->n_tail >= g->n_tail_bucket) grow_tails(g);
    const uint32_t h = hash_tail(node, parent) & (g->n_tail_bucket - 1);
    for (uint32_t i = g->tail_bucket[h]; i; i = g->tail[i].chain)
        if (g->tail[i].node == node && g->tail[i].parent == parent) return i;
    const uint32_t depth = (parent ? g->tail[parent].depth : 0) + 1;
    if (depth > GRAM_DEPTH_MAX) return GRAM_INF;
    if (g->n_tail >= TAILS_MAX || g->bytes > GRAM_BYTES_MAX) {
        if (!g->full) g->full = "more than 64 MiB";
        return GRAM_INF;
    }
    if (g->n_tail >= g->cap_tail) {
        const uint32_t to = g->cap_tail ? g->cap_tail * 2 : 256;
        g->tail = xreallocarray(g->tail, to, sizeof *g->tail);
        g->bytes += (size_t)(to - g->cap_tail) * sizeof *g->tail;
        g->cap_tail = to;
    }
    g->tail[g->n_tail] =
        (struct gtail){.node = node, .parent = parent, .depth = depth, .chain = g->tail_bucket[h]};
    g->tail_bucket[h] = g->n_tail;
    return g->n_tail++;
}

/* ---- expansion ---- */

/* Adds (head, tail) unless it is already present; sets the grammar's error at the limit. */
static void add_item(struct grammar *g, struct gconf *c, gnode head, uint32_t tail) {
    bool there = false; /* no early exit, so that the compiler can vectorize */
    if (!gram_spend(g, 1 + (uint64_t)c->n / 8)) return;
    for (int i = 0; i < c->n; i++) there |= ((c->it[i].head ^ head) | (c->it[i].tail ^ tail)) == 0;
    if (there) return;
    if (c->n < GRAM_ITEMS_MAX)
        c->it[c->n++] = (struct gitem){head, tail};
    else if (!g->full)
        g->full = "more than 4096 ways to continue";
}

/* Adds an item that starts at the current position, and records whether a name begins there. */
static void add(struct grammar *g, struct gconf *c, gnode head, uint32_t tail) {
    c->fresh = c->fresh || gtail_named(g, tail);
    add_item(g, c, head, tail);
}

static void expand_node(struct grammar *g, gnode n, uint32_t tail, struct gconf *out);

/* Returns the number of set bits. */
static int n_bits(uint64_t x) {
    return __builtin_popcountll(x);
}

/* Returns the rows of p that are still required when the rows `seen` have been written; both as
 * bits. */
static uint64_t missing(const struct gpick *p, uint64_t seen) {
    uint64_t want = p->required;
    for (uint64_t s = seen; s; s &= s - 1) want |= p->row[__builtin_ctzll(s)].needs;
    return want & ~seen;
}

/* Returns whether n has any text. */
static bool live_body(struct grammar *g, gnode n) {
    return gn_regular(g, n) ? gn_live(g, n) : gn(g, n)->flags & GF_LIVE;
}

/* Returns whether row i may come next without making the object impossible to complete. d->bits:
 * the rows seen or, with more than GRAM_PICK_BITS rows, the number of rows passed. Sets *to to the
 * value of d->bits after row i. */
static bool may_take(struct grammar *g, const struct gpick *p, int i, const struct gnode_data *d,
                     uint64_t *to) {
    const int64_t n = p->n, room = p->hi == GRAM_INF ? INT64_MAX : (int64_t)p->hi - d->lo - 1;
    if (room < 0) return false;
    if (n > GRAM_PICK_BITS) {
        const struct gpick_far *behind = &p->far[i + 1];
        if ((uint64_t)i < d->bits || p->far[d->bits].due < (uint64_t)i) return false;
        *to = (uint64_t)i + 1;
        return (int64_t)behind->must <= room && live_body(g, p->row[i].body) &&
               (p->extra || (int64_t)d->lo + 1 + behind->usable >= p->lo);
    }
    const uint64_t bit = (uint64_t)1 << i, below = bit - 1, seen = d->bits;
    if (seen & bit || !(p->usable & bit)) return false;
    const uint64_t due = missing(p, seen | bit);
    if (p->ordered && (seen >= bit || due & below)) return false;
    uint64_t left = p->usable & ~(seen | bit);
    for (uint64_t x = p->ordered ? left : 0; x; x &= x - 1) { /* rows that need a skipped row */
        const int k = __builtin_ctzll(x);
        if (k < i || p->row[k].needs & below & ~seen) left &= ~((uint64_t)1 << k);
    }
    *to = seen | bit;
    return n_bits(due) <= room && (p->extra || (int64_t)d->lo + 1 + n_bits(left) >= p->lo);
}

/* Returns whether every required member of the pick has been written. */
static bool nothing_due(const struct gpick *p, const struct gnode_data *d) {
    if (p->n <= GRAM_PICK_BITS) return missing(p, d->bits) == 0;
    return p->far[d->bits].due == (uint32_t)p->n;
}

/* Returns the rest of an object after one more member; fields as described at enum gkind. */
static gnode after_member(struct grammar *g, const struct gnode_data *d, enum gkind kind,
                          uint64_t bits, uint32_t other) {
    return gn_members(g, (struct gnode_data){.kind = (uint8_t)kind,
                                             .a = d->a,
                                             .b = d->b,
                                             .lo = d->lo + 1,
                                             .hi = kind == G_NAMED ? other : d->hi,
                                             .bits = bits});
}

/* Adds the ways to continue a set of object members. */
static void expand_pick(struct grammar *g, const struct gnode_data *d, uint32_t tail,
                        struct gconf *out) {
    const struct gpick p = g->pick[d->a];
    const gnode before = d->lo || d->bits ? p.sep : p.first;
    const bool many = p.n > GRAM_PICK_BITS;
    const int64_t from = many ? (int64_t)d->bits : 0,
                  most = many ? (int64_t)p.far[from].due + 1 : (int64_t)p.n;
    for (int64_t i = from; i < p.n && i < most; i++) {
        uint64_t to = 0;
        if (!may_take(g, &p, (int)i, d, &to)) continue;
        const uint32_t t = push(g, after_member(g, d, G_PICK, to, 0), tail);
        if (t != GRAM_INF) expand_node(g, gn_cat(g, before, p.row[i].body), t, out);
    }
    const bool done = nothing_due(&p, d), room = p.hi == GRAM_INF || d->lo < p.hi;
    const int64_t due = p.n <= GRAM_PICK_BITS ? n_bits(missing(&p, d->bits)) : 0;
    if (p.extra && room && live_body(g, p.extra) && (done || !p.ordered) &&
        (p.hi == GRAM_INF || due < (int64_t)p.hi - d->lo)) {
        uint64_t bits = d->bits;
        if (p.ordered && p.n > GRAM_PICK_BITS) bits = (uint64_t)p.n;
        if (p.ordered && p.n && p.n <= GRAM_PICK_BITS) bits |= (uint64_t)1 << (p.n - 1);
        for (int k = 0; k < p.n_other; k++) {
            const gnode key = gram_once_left(g, p.other[k].key, d->b);
            if (!gn_live(g, key)) continue;
            const uint32_t t = push(g, after_member(g, d, G_NAMED, bits, (uint32_t)k), tail);
            if (t != GRAM_INF)
                expand_node(g, gn_cat(g, before, gn_cat3(g, p.open, key, p.shut)), t, out);
        }
        const uint32_t t =
            p.n_other ? GRAM_INF : push(g, after_member(g, d, G_PICK, bits, 0), tail);
        if (t != GRAM_INF) expand_node(g, gn_cat(g, before, p.extra), t, out);
    }
    if (done && d->lo >= p.lo) expand_node(g, p.close, tail, out);
}

static void pop_tail(struct grammar *g, uint32_t tail, struct gconf *out);

/* Adds a regular node, and what follows it if it matches "". */
static void expand_regular(struct grammar *g, gnode n, uint32_t tail, struct gconf *out) {
    if (!gn_live(g, n)) return;
    if (n != G_EPS) add(g, out, n, tail);
    if (gn_null(g, n)) pop_tail(g, tail, out);
}

/* Returns whether n has any text. This is known for all nodes that existed when the grammar was
 * sealed. Newer nodes are sequences of those, or result from members and repetitions that have
 * already been checked. */
static bool has_text(struct grammar *g, gnode n) {
    if (gn_regular(g, n)) return gn_live(g, n);
    const struct gnode_data d = *gn(g, n);
    if (d.flags & GF_LIVE) return true;
    if (n < g->n_judged) return false;
    if (d.kind == G_CAT && !has_text(g, d.a)) return false;
    if (d.kind == G_CAT && !has_text(g, d.b)) return false;
    g->node[n].flags |= GF_LIVE;
    return true;
}

/* Adds the ways to begin a node that is not regular. */
static void expand_other(struct grammar *g, gnode n, uint32_t tail, struct gconf *out) {
    const struct gnode_data d = *gn(g, n);
    uint32_t t;
    if (!has_text(g, n)) return;
    if (d.kind == G_CAT) {
        t = push(g, d.b, tail);
        if (t != GRAM_INF) expand_node(g, d.a, t, out);
    } else if (d.kind == G_ALT) {
        for (uint32_t i = 0; i < d.b; i++) expand_node(g, g->list[d.a + i], tail, out);
    } else if (d.kind == G_RULE) {
        expand_node(g, g->rule[d.a].body, tail, out);
    } else if (d.kind == G_PICK) {
        expand_pick(g, &d, tail, out);
    } else if (d.kind == G_REP) {
        const uint32_t hi = d.hi == GRAM_INF ? GRAM_INF : d.hi - 1;
        t = push(g, gn_rep(g, d.a, d.lo ? d.lo - 1 : 0, hi), tail);
        if (t != GRAM_INF && live_body(g, d.a)) expand_node(g, d.a, t, out);
        if (d.lo == 0) pop_tail(g, tail, out);
    }
}

/* Adds the ways to begin n, followed by tail; the depth is limited. */
static void expand_node(struct grammar *g, gnode n, uint32_t tail, struct gconf *out) {
    if (g->full) return;
    if (g->depth >= EXPAND_MAX) {
        g->full = "rules nested more than 2000 deep";
        return;
    }
    g->depth++;
    if (gn_regular(g, n))
        expand_regular(g, n, tail, out);
    else
        expand_other(g, n, tail, out);
    g->depth--;
}

/* Computes and caches the items at the top of the stack `tail`. */
static void expand_tail(struct grammar *g, uint32_t tail) {
    struct gconf *c = xmalloc(sizeof *c);
    c->n = 0;
    c->can_end = c->fresh = false;
    c->name.n =
        GRAM_NAME_LOST; /* no name ends here: names include their quotes, so they are not empty */
    g->tail[tail].state = 1;
    expand_node(g, g->tail[tail].node, g->tail[tail].parent, c);
    while (g->n_item + (uint32_t)c->n > g->cap_item) {
        const uint32_t to = g->cap_item ? g->cap_item * 2 : 1024;
        g->item = xreallocarray(g->item, to, sizeof *g->item);
        g->bytes += (size_t)(to - g->cap_item) * sizeof *g->item;
        g->cap_item = to;
    }
    struct gtail *t = &g->tail[tail];
    if (c->n) memcpy(g->item + g->n_item, c->it, (size_t)c->n * sizeof *c->it);
    t->item = g->n_item;
    t->n_item = (uint32_t)c->n;
    t->can_end = c->can_end;
    t->state = 2;
    g->n_item += (uint32_t)c->n;
    free(c);
}

uint32_t gconf_named(struct grammar *g, uint32_t tail, const struct gname *name) {
    const struct gtail t = g->tail[tail];
    const struct gnode_data d = *gn(g, t.node);
    const uint32_t after = push(g, gram_once_next(g, &d, name), t.parent);
    return after == GRAM_INF ? GRAM_INF : push(g, g->pick[d.a].other[d.hi].rest, after);
}

/* Adds the ways to continue after a node, beginning with its tail. */
static void pop_tail(struct grammar *g, uint32_t tail, struct gconf *out) {
    if (gtail_named(g, tail)) tail = gconf_named(g, tail, &out->name);
    if (tail == GRAM_INF) return;
    if (tail == 0) {
        out->can_end = true;
        return;
    }
    const struct gnode_data *d = gn(g, g->tail[tail].node);
    g->unsure = g->unsure || (d->kind == G_PICK && d->hi);
    if (g->tail[tail].state == 1) return; /* its items are being collected by a caller */
    if (g->tail[tail].state == 0) expand_tail(g, tail);
    const struct gtail *t = &g->tail[tail];
    for (uint32_t i = 0; i < t->n_item; i++) {
        const struct gitem x = g->item[t->item + i];
        add(g, out, x.head, x.tail);
    }
    out->can_end |= t->can_end;
}

/* ---- positions ---- */

/* Empties the configuration but keeps its storage. */
static void clear_conf(struct gconf *c) {
    c->n = 0;
    c->can_end = c->fresh = c->named = false;
    c->name.n = 0;
}

/* Updates whether a name is being written. A name is lost if it may have begun at two different
 * bytes. */
static void finish(struct gconf *c, bool in_name) {
    c->named = in_name || c->fresh;
    if (c->fresh) c->name.n = in_name ? GRAM_NAME_LOST : 0;
}

void gconf_pop(struct grammar *g, uint32_t tail, const struct gname *name, struct gconf *out) {
    clear_conf(out);
    out->name.n = GRAM_NAME_UNKNOWN;
    if (name) gname_copy(&out->name, name);
    pop_tail(g, tail, out);
    finish(out, false);
}

void gconf_start(struct grammar *g, struct gconf *c) {
    clear_conf(c);
    expand_node(g, g->root, 0, c);
    finish(c, false);
}

void gconf_copy(struct gconf *to, const struct gconf *from) {
    to->n = from->n;
    to->can_end = from->can_end;
    to->fresh = from->fresh;
    to->named = from->named;
    if (from->named) gname_copy(&to->name, &from->name);
    memcpy(to->it, from->it, (size_t)from->n * sizeof *from->it);
}

void gconf_step(struct grammar *g, const struct gconf *in, uint8_t byte, struct gconf *out) {
    const int cls = g->cls[byte];
    bool in_name = false;
    clear_conf(out);
    if (in->named) {
        gname_copy(&out->name, &in->name);
        gname_add(&out->name, byte);
    }
    gram_spend(g, 1 + (uint64_t)in->n);
    for (int i = 0; i < in->n; i++) {
        const gnode h = gn_step(g, in->it[i].head, cls);
        if (h == G_NONE) continue;
        if (h != G_EPS) add_item(g, out, h, in->it[i].tail);
        in_name = in_name || (h != G_EPS && in->named && gtail_named(g, in->it[i].tail));
        if (gn_null(g, h)) pop_tail(g, in->it[i].tail, out);
    }
    finish(out, in_name);
}
