// SPDX-License-Identifier: MIT
/* grammar/min_len.c - length in bytes of each node's shortest text, cached per node. Sequences,
 * choices and repetitions combine the lengths of their parts (for rules, by Knuth's algorithm of
 * 1977). Intersections, complements and remainders need an A* search, whose heuristic is the
 * lengths of the parts. Object members are chosen greedily, without enumerating combinations.
 * shortest.c constructs the texts. */
#include "grammar/gram_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

enum { DEPTH_MAX = 1000, STATES_MAX = 2000, SLOTS = 1 << 12 };

/* Returns n * a; GRAM_INF: unlimited. */
static uint32_t mul_len(uint32_t n, uint32_t a) {
    if (n == 0 || a == 0) return 0;
    return a == GRAM_INF || (uint64_t)n * a >= GRAM_INF ? GRAM_INF : n * a;
}
static uint32_t smaller_len(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

struct gleast *gn_kept(struct grammar *g, gnode n) {
    if (n >= g->cap_least) {
        const uint32_t to = g->n_node + g->n_node / 2 + 64;
        g->least = xreallocarray(g->least, to, sizeof *g->least);
        memset(g->least + g->cap_least, 0, (to - g->cap_least) * sizeof *g->least);
        g->bytes += (to - g->cap_least) * sizeof *g->least;
        g->cap_least = to;
    }
    return &g->least[n];
}
/* Caches the length of a node and returns it. */
static uint32_t cache_len(struct grammar *g, gnode n, uint32_t len) {
    gn_kept(g, n)->bytes = len == GRAM_INF ? GRAM_INF : len + 1;
    return len;
}

/* ---- nodes ---- */

static uint32_t measure_node(struct grammar *g, gnode n, bool search);

/* Counts the members that an object still needs, and their bytes. */
struct count {
    uint64_t came, taken; /* rows written before; these plus the rows added here */
    uint32_t n, bytes;
};

/* Returns the total length of row i and all rows it needs, without those already taken. Sets *rows
 * to these rows, as bits. */
static uint32_t row_needs(struct grammar *g, const struct gpick *p, int i, const struct count *c,
                          uint64_t *rows, bool search) {
    uint32_t len = 0;
    *rows = ((uint64_t)1 << i | p->row[i].needs) & ~c->taken;
    for (uint64_t x = *rows; x; x &= x - 1) {
        const int k = __builtin_ctzll(x);
        const bool passed = p->ordered && c->came >> k > 1;
        len = gn_sum(len, passed || !(p->usable >> k & 1)
                              ? GRAM_INF
                              : gn_sum(measure_node(g, p->row[k].body, search),
                                       measure_node(g, p->sep, search)));
    }
    return len;
}

/* Adds row i and the rows it needs to c. */
static void take_row(struct grammar *g, const struct gpick *p, int i, struct count *c,
                     bool search) {
    uint64_t rows;
    c->bytes = gn_sum(c->bytes, row_needs(g, p, i, c, &rows, search));
    c->n += (uint32_t)__builtin_popcountll(rows);
    c->taken |= rows;
}

/* Returns the fewest bytes that an unlisted member takes. Only one member can have the shortest
 * name; the others are assumed to be two bytes longer at most. */
static uint32_t extra_bytes(struct grammar *g, const struct gpick *p, bool search) {
    if (!p->extra) return GRAM_INF;
    const uint32_t bytes =
        gn_sum(measure_node(g, p->extra, search), measure_node(g, p->sep, search));
    return p->n_other && p->lo > 1 ? gn_sum(bytes, 2) : bytes;
}

/* Adds members to c, cheapest first, until there are p->lo. */
static void fill(struct grammar *g, const struct gpick *p, struct count *c, bool search) {
    const uint32_t extra = extra_bytes(g, p, search);
    while (c->n < p->lo && c->bytes != GRAM_INF) {
        uint32_t best = extra;
        int at = -1;
        for (int i = 0; i < p->n; i++) {
            uint64_t rows;
            if (c->taken >> i & 1) continue;
            const uint32_t len = row_needs(g, p, i, c, &rows, search);
            if (len < best) {
                best = len;
                at = i;
            }
        }
        if (at < 0) {
            c->bytes = gn_sum(c->bytes, mul_len(p->lo - c->n, extra));
            c->n = p->lo;
            return;
        }
        take_row(g, p, at, c, search);
    }
}

static int by_size(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Does the same as fill() for an object with more than GRAM_PICK_BITS rows, of which the first
 * `from` have been passed. */
static void fill_many(struct grammar *g, const struct gpick *p, uint32_t from, struct count *c,
                      bool search) {
    const uint32_t sep = measure_node(g, p->sep, search);
    uint32_t optional = 0, taken = 0, extra = GRAM_INF,
             *len = xcalloc((size_t)p->n + 1, sizeof *len);
    for (int i = (int)from; i < p->n; i++) {
        const uint32_t x = gn_sum(measure_node(g, p->row[i].body, search), sep);
        if (!p->row[i].required) {
            len[optional++] = x;
            continue;
        }
        c->bytes = gn_sum(c->bytes, x);
        c->n++;
    }
    extra = extra_bytes(g, p, search);
    if (optional > 1) qsort(len, optional, sizeof *len, by_size);
    while (c->n < p->lo && c->bytes != GRAM_INF) {
        const bool own = taken < optional && len[taken] <= extra;
        const uint32_t n = own ? 1 : p->lo - c->n;
        c->bytes = gn_sum(c->bytes, mul_len(n, own ? len[taken++] : extra));
        c->n += n;
    }
    free(len);
}

/* Returns the fewest bytes that complete an object; d: its G_PICK node. */
static uint32_t measure_pick(struct grammar *g, const struct gnode_data *d, bool search) {
    const struct gpick p = g->pick[d->a];
    struct count c = {.came = d->bits, .taken = d->bits, .n = d->lo};
    if (p.n > GRAM_PICK_BITS) {
        fill_many(g, &p, (uint32_t)d->bits, &c, search);
    } else {
        for (int i = 0; i < p.n; i++) {
            bool due = p.required >> i & 1;
            for (uint64_t x = d->bits; x && !due; x &= x - 1)
                due = p.row[__builtin_ctzll(x)].needs >> i & 1;
            if (due && !(c.taken >> i & 1)) take_row(g, &p, i, &c, search);
        }
        fill(g, &p, &c, search);
    }
    const bool any = d->lo || d->bits;
    if (!any && c.n && c.bytes != GRAM_INF) /* no separator precedes the first member */
        c.bytes =
            gn_sum(c.bytes - measure_node(g, p.sep, search), measure_node(g, p.first, search));
    return gn_sum(c.bytes, measure_node(g, p.close, search));
}

static uint32_t find_shortest(struct grammar *g, gnode n);

/* Returns the minimum of the lengths in a union, or the maximum of those in an intersection. */
static uint32_t measure_list(struct grammar *g, const struct gnode_data *d, bool search) {
    uint32_t len = d->kind == G_AND ? 0 : GRAM_INF;
    for (uint32_t i = 0; i < d->b; i++) {
        const uint32_t x = measure_node(g, g->list[d->a + i], search);
        len = d->kind == G_AND ? (x > len ? x : len) : smaller_len(len, x);
    }
    return len;
}

/* Returns whether a length measured for n is exact, so that it may be cached. */
static bool is_final(const struct grammar *g, gnode n, bool search) {
    return (search || gn(g, n)->flags & GF_PLAIN) && (g->least_known || gn_regular(g, n));
}

/* Computes the length of a sequence, starting at its end so that the lengths of its suffixes are
 * also cached. */
static uint32_t measure_cat(struct grammar *g, gnode n, bool search) {
    gnode *v = NULL;
    uint32_t m = 0, cap = 0, len;
    for (; gn(g, n)->kind == G_CAT && (!m || n >= g->cap_least || !g->least[n].bytes);
         n = gn(g, n)->b) {
        if (m == cap) v = xreallocarray(v, cap = cap ? 2 * cap : 16, sizeof *v);
        v[m++] = n;
        if (!gram_spend(g, 1)) break;
    }
    len = measure_node(g, n, search);
    while (m-- > 0) {
        len = gn_sum(measure_node(g, gn(g, v[m])->a, search), len);
        if (is_final(g, v[m], search)) cache_len(g, v[m], len);
    }
    free(v);
    return len;
}

/* Returns the shortest length of n; GRAM_INF: none known. Without `search`, a lower bound. */
static uint32_t measure_new(struct grammar *g, gnode n, bool search) {
    const struct gnode_data d = *gn(g, n);
    switch ((enum gkind)d.kind) {
    case G_NONE:
        return GRAM_INF;
    case G_EPS:
        return 0;
    case G_SET:
        return 1;
    case G_CAT:
        return measure_cat(g, n, search);
    case G_ALT:
        return measure_list(g, &d, search);
    case G_AND:
        return search ? find_shortest(g, n) : measure_list(g, &d, false);
    case G_NOT:
    case G_MOD:
        return gn_null(g, n) ? 0 : search ? find_shortest(g, n) : 1;
    case G_REP:
        return d.lo ? mul_len(d.lo, measure_node(g, d.a, search)) : 0;
    case G_RULE:
        return g->rule[d.a].least;
    case G_PICK:
        return measure_pick(g, &d, search);
    case G_NAMED:
        return gn_sum(measure_node(g, g->pick[d.a].other[d.hi].rest, search),
                      measure_pick(g, &d, search));
    }
    return GRAM_INF;
}

/* Returns the length of the node's shortest text in bytes; GRAM_INF: none, or not found. */
static uint32_t measure_node(struct grammar *g, gnode n, bool search) {
    const uint32_t known = n < g->cap_least ? g->least[n].bytes : 0;
    if (known) return known == GRAM_INF ? GRAM_INF : known - 1;
    if (g->depth >= DEPTH_MAX || !gram_spend(g, 1)) return search ? GRAM_INF : 0;
    g->depth++;
    const uint32_t len = measure_new(g, n, search);
    g->depth--;
    return is_final(g, n, search) ? cache_len(g, n, len) : len;
}

/* ---- search ---- */

struct seen { /* a state that was reached */
    gnode node;
    uint32_t from, so_far, all; /* bytes from the start so far; lower bound of the total */
};
struct hunt {
    struct seen *v;
    uint32_t *heap;                       /* ordered by .all, then by progress */
    uint32_t n, cap, n_heap, slot[SLOTS]; /* hash table by node: index in v + 1 */
};

/* Returns whether a is to be explored before b. */
static bool is_sooner(const struct hunt *h, uint32_t a, uint32_t b) {
    const struct seen *x = &h->v[a], *y = &h->v[b];
    return x->all != y->all ? x->all < y->all : x->so_far > y->so_far;
}

/* Returns the hash slot of a node, or a free one for it. */
static uint32_t *hunt_slot(struct hunt *h, gnode n) {
    uint32_t i = n * 2654435761u >> 20;
    while (h->slot[i] && h->v[h->slot[i] - 1].node != n) i = (i + 1) % SLOTS;
    return &h->slot[i];
}

/* Adds a state to the heap unless its node was already reached in the same number of bytes or
 * fewer. */
static void hunt_put(struct hunt *h, struct seen s) {
    uint32_t *slot = hunt_slot(h, s.node);
    if (*slot && h->v[*slot - 1].so_far <= s.so_far) return;
    *slot = h->n + 1;
    if (h->n == h->cap) {
        h->cap = h->cap ? 2 * h->cap : 64;
        h->v = xreallocarray(h->v, h->cap, sizeof *h->v);
        h->heap = xreallocarray(h->heap, h->cap, sizeof *h->heap);
    }
    h->v[h->n] = s;
    uint32_t i = h->n_heap++;
    for (; i && is_sooner(h, h->n, h->heap[(i - 1) / 2]); i = (i - 1) / 2)
        h->heap[i] = h->heap[(i - 1) / 2];
    h->heap[i] = h->n++;
}

/* Removes the state with the smallest lower bound from the heap and returns its index in v. */
static uint32_t hunt_take(struct hunt *h) {
    const uint32_t top = h->heap[0], last = h->heap[--h->n_heap];
    uint32_t i = 0;
    for (uint32_t k; (k = 2 * i + 1) < h->n_heap; i = k) {
        if (k + 1 < h->n_heap && is_sooner(h, h->heap[k + 1], h->heap[k])) k++;
        if (!is_sooner(h, h->heap[k], last)) break;
        h->heap[i] = h->heap[k];
    }
    if (h->n_heap) h->heap[i] = last;
    return top;
}

/* Searches for the shortest text of n; also caches the lengths of the states on its path. */
static uint32_t find_shortest(struct grammar *g, gnode n) {
    struct hunt h = {0};
    uint32_t found = GRAM_INF, at = 0;
    hunt_put(&h, (struct seen){.node = n, .all = measure_node(g, n, false)});
    while (h.n_heap && h.n < STATES_MAX && !g->full) {
        at = hunt_take(&h);
        const struct seen s = h.v[at];
        const uint32_t known = s.node < g->cap_least ? g->least[s.node].bytes : 0;
        if (s.all == GRAM_INF) break;
        if (gn_null(g, s.node) || (known && known != GRAM_INF)) {
            found = gn_sum(s.so_far, gn_null(g, s.node) ? 0 : known - 1);
            break;
        }
        for (int c = 0; c < g->n_cls && gram_spend(g, 1); c++) {
            const gnode to = gn_step(g, s.node, c);
            if (to == G_NONE) continue;
            const uint32_t rest = measure_node(g, to, false);
            hunt_put(&h, (struct seen){to, at, s.so_far + 1, gn_sum(s.so_far + 1, rest)});
        }
    }
    for (uint32_t i = at; found != GRAM_INF; i = h.v[i].from) {
        cache_len(g, h.v[i].node, found - h.v[i].so_far);
        if (!i) break;
    }
    free(h.v);
    free(h.heap);
    return found;
}

/* ---- rules ---- */

/* Computes the rules' lengths by iteration, until no rule becomes shorter. */
void gram_know_rules(struct grammar *g) {
    bool changed = !g->least_known;
    if (!changed) return;
    for (uint32_t r = 0; r < g->n_rule; r++) g->rule[r].least = GRAM_INF;
    const gnode n_node = g->n_node;
    for (int round = 0; changed && round < DEPTH_MAX; round++) {
        changed = false;
        for (gnode i = 0; i < n_node && gram_spend(g, 1); i++) {
            if (gn_regular(g, i)) continue;
            gn_kept(g, i)->bytes = 0;
            cache_len(g, i, measure_node(g, i, true));
        }
        for (uint32_t r = g->n_rule; r-- > 0;) {
            const uint32_t len = measure_node(g, g->rule[r].body, true);
            changed |= len < g->rule[r].least;
            g->rule[r].least = smaller_len(len, g->rule[r].least);
        }
    }
    g->least_known = true;
}

/* ---- positions ---- */

/* Returns the fewest bytes that complete the stack `tail`, or GRAM_INF. */
static uint32_t tail_needs(struct grammar *g, uint32_t tail) {
    uint32_t len = 0;
    for (; tail && len != GRAM_INF; tail = g->tail[tail].parent)
        len = gn_sum(len, measure_node(g, g->tail[tail].node, true));
    return len;
}

uint32_t gconf_least(struct grammar *g, const struct gconf *c, int *best) {
    uint32_t len = c->can_end ? 0 : GRAM_INF;
    bool goes_on = false;
    for (int i = 0; i < c->n && len; i++) {
        const uint32_t head = measure_node(g, c->it[i].head, true);
        const uint32_t x = gn_sum(head, tail_needs(g, c->it[i].tail));
        if (x < len || (x == len && x != GRAM_INF && head && !goes_on)) {
            len = x;
            goes_on = head != 0;
            *best = i;
        }
    }
    return len;
}

uint32_t gn_least(struct grammar *g, gnode n) {
    return measure_node(g, n, true);
}
