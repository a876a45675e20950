// SPDX-License-Identifier: MIT
/* gram/least.c - how few bytes complete a text, and a shortest way to do it. Lengths are
 * remembered per node: of sequences, choices and counts they follow from the parts (Knuth 1977 for
 * rules); of intersections, complements and remainders they are searched (A*, by what the parts
 * need alone). Members of objects are counted, so no list of them is gone through. */
#include "gram/gram_int.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/num.h"
#include "tok/tok.h"

enum { DEPTH_MAX = 1000, STATES_MAX = 2000, SLOTS = 1 << 12, WAY_MAX = 1 << 15 };

static uint32_t sum(uint32_t a, uint32_t b) {
    return a >= GRAM_INF - b || b == GRAM_INF ? GRAM_INF : a + b;
}
static uint32_t times(uint32_t n, uint32_t a) {
    if (n == 0 || a == 0) return 0;
    return a == GRAM_INF || (uint64_t)n * a >= GRAM_INF ? GRAM_INF : n * a;
}
static uint32_t least2(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* Returns the place of what is remembered of node n. */
static struct gleast *kept(struct grammar *g, gnode n) {
    if (n >= g->cap_least) {
        const uint32_t to = g->n_node + g->n_node / 2 + 64;
        g->least = xreallocarray(g->least, to, sizeof *g->least);
        memset(g->least + g->cap_least, 0, (to - g->cap_least) * sizeof *g->least);
        g->bytes += (to - g->cap_least) * sizeof *g->least;
        g->cap_least = to;
    }
    return &g->least[n];
}
static uint32_t keep(struct grammar *g, gnode n, uint32_t len) {
    kept(g, n)->bytes = len == GRAM_INF ? GRAM_INF : len + 1;
    return len;
}

/* ---- nodes ---- */

static uint32_t measure(struct grammar *g, gnode n, bool search);

/* Members of an object: how many bytes those need that are to come. */
struct count {
    uint64_t came, taken; /* rows that came; those, and rows that are to come */
    uint32_t n, bytes;
};

/* Returns how many bytes row i needs with all the rows that it asks for; *rows gets those, as bits.
 */
static uint32_t row_needs(struct grammar *g, const struct gpick *p, int i, const struct count *c,
                          uint64_t *rows, bool search) {
    uint32_t len = 0;
    *rows = ((uint64_t)1 << i | p->row[i].needs) & ~c->taken;
    for (uint64_t x = *rows; x; x &= x - 1) {
        const int k = __builtin_ctzll(x);
        const bool passed = p->ordered && c->came >> k > 1;
        len = sum(len, passed || !(p->usable >> k & 1)
                           ? GRAM_INF
                           : sum(measure(g, p->row[k].body, search), measure(g, p->sep, search)));
    }
    return len;
}

/* Adds row i to c, and what it needs. */
static void take_row(struct grammar *g, const struct gpick *p, int i, struct count *c,
                     bool search) {
    uint64_t rows;
    c->bytes = sum(c->bytes, row_needs(g, p, i, c, &rows, search));
    c->n += (uint32_t)__builtin_popcountll(rows);
    c->taken |= rows;
}

/* Adds members to c until there are p->lo: the cheapest first. */
static void fill(struct grammar *g, const struct gpick *p, struct count *c, bool search) {
    const uint32_t extra =
        p->extra ? sum(measure(g, p->extra, search), measure(g, p->sep, search)) : GRAM_INF;
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
            c->bytes = sum(c->bytes, times(p->lo - c->n, extra));
            c->n = p->lo;
            return;
        }
        take_row(g, p, at, c, search);
    }
}

/* Does the same for an object of many rows, of which `from` are passed. */
static void fill_many(struct grammar *g, const struct gpick *p, uint32_t from, struct count *c,
                      bool search) {
    const uint32_t sep = measure(g, p->sep, search);
    uint32_t optional = 0, *len = xcalloc((size_t)p->n + 1, sizeof *len);
    for (int i = (int)from; i < p->n; i++) {
        const uint32_t x = sum(measure(g, p->row[i].body, search), sep);
        if (!p->row[i].required) {
            len[optional++] = x;
            continue;
        }
        c->bytes = sum(c->bytes, x);
        c->n++;
    }
    if (p->extra) len[optional] = sum(measure(g, p->extra, search), sep);
    while (c->n < p->lo && c->bytes != GRAM_INF) {
        uint32_t at = p->extra ? optional : 0;
        for (uint32_t i = 0; i < optional; i++)
            if (len[i] && (!len[at] || len[i] < len[at])) at = i;
        const uint32_t n = at == optional ? p->lo - c->n : 1;
        c->bytes = len[at] ? sum(c->bytes, times(n, len[at])) : GRAM_INF;
        c->n += n;
        if (at < optional) len[at] = 0; /* taken */
    }
    free(len);
}

/* Returns how few bytes the rest of an object needs; d as in gram_step.c. */
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
    if (!any && c.n && c.bytes != GRAM_INF) /* the first of them has no separator in front */
        c.bytes = sum(c.bytes - measure(g, p.sep, search), measure(g, p.first, search));
    return sum(c.bytes, measure(g, p.close, search));
}

static uint32_t look(struct grammar *g, gnode n);

static uint32_t measure_list(struct grammar *g, const struct gnode_data *d, bool search) {
    uint32_t len = d->kind == G_AND ? 0 : GRAM_INF;
    for (uint32_t i = 0; i < d->b; i++) {
        const uint32_t x = measure(g, g->list[d->a + i], search);
        len = d->kind == G_AND ? (x > len ? x : len) : least2(len, x);
    }
    return len;
}

/* Returns how few bytes a text of n has, GRAM_INF when none is known. Without `search` it is at
 * most that. */
static uint32_t measure_new(struct grammar *g, gnode n, bool search) {
    const struct gnode_data d = *gn(g, n);
    uint32_t len = 0;
    switch ((enum gkind)d.kind) {
    case G_NONE:
        return GRAM_INF;
    case G_EPS:
        return 0;
    case G_SET:
        return 1;
    case G_CAT:
        for (; gn(g, n)->kind == G_CAT; n = gn(g, n)->b)
            len = sum(len, measure(g, gn(g, n)->a, search));
        return sum(len, measure(g, n, search));
    case G_ALT:
        return measure_list(g, &d, search);
    case G_AND:
        return search ? look(g, n) : measure_list(g, &d, false);
    case G_NOT:
    case G_MOD:
        return gn_null(g, n) ? 0 : search ? look(g, n) : 1;
    case G_REP:
        return d.lo ? times(d.lo, measure(g, d.a, search)) : 0;
    case G_RULE:
        return g->rule[d.a].least;
    case G_PICK:
        return measure_pick(g, &d, search);
    }
    return GRAM_INF;
}

static uint32_t measure(struct grammar *g, gnode n, bool search) {
    const uint32_t known = n < g->cap_least ? g->least[n].bytes : 0;
    if (known) return known == GRAM_INF ? GRAM_INF : known - 1;
    if (g->depth >= DEPTH_MAX) return search ? GRAM_INF : 0;
    g->depth++;
    const uint32_t len = measure_new(g, n, search);
    g->depth--;
    const bool final = search && (g->least_known || gn_regular(g, n));
    return final ? keep(g, n, len) : len;
}

/* ---- searching ---- */

struct seen { /* a state that a search came to */
    gnode node;
    uint32_t from, so_far, all; /* bytes from the beginning, and at least in all */
};
struct hunt {
    struct seen *v;
    uint32_t *heap;                       /* by .all, then the further one */
    uint32_t n, cap, n_heap, slot[SLOTS]; /* by node: where it is in v, and 1 */
};

static bool sooner(const struct hunt *h, uint32_t a, uint32_t b) {
    const struct seen *x = &h->v[a], *y = &h->v[b];
    return x->all != y->all ? x->all < y->all : x->so_far > y->so_far;
}

/* Returns the slot of a node. */
static uint32_t *hunt_slot(struct hunt *h, gnode n) {
    uint32_t i = n * 2654435761u >> 20;
    while (h->slot[i] && h->v[h->slot[i] - 1].node != n) i = (i + 1) % SLOTS;
    return &h->slot[i];
}

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
    for (; i && sooner(h, h->n, h->heap[(i - 1) / 2]); i = (i - 1) / 2)
        h->heap[i] = h->heap[(i - 1) / 2];
    h->heap[i] = h->n++;
}

static uint32_t hunt_take(struct hunt *h) {
    const uint32_t top = h->heap[0], last = h->heap[--h->n_heap];
    uint32_t i = 0;
    for (uint32_t k; (k = 2 * i + 1) < h->n_heap; i = k) {
        if (k + 1 < h->n_heap && sooner(h, h->heap[k + 1], h->heap[k])) k++;
        if (!sooner(h, h->heap[k], last)) break;
        h->heap[i] = h->heap[k];
    }
    if (h->n_heap) h->heap[i] = last;
    return top;
}

/* Searches the shortest text of n. What lies on the way to it is remembered, too. */
static uint32_t look(struct grammar *g, gnode n) {
    struct hunt h = {0};
    uint32_t found = GRAM_INF, at = 0;
    hunt_put(&h, (struct seen){.node = n, .all = measure(g, n, false)});
    while (h.n_heap && h.n < STATES_MAX && !g->full) {
        at = hunt_take(&h);
        const struct seen s = h.v[at];
        const uint32_t known = s.node < g->cap_least ? g->least[s.node].bytes : 0;
        if (s.all == GRAM_INF) break;
        if (gn_null(g, s.node) || (known && known != GRAM_INF)) {
            found = sum(s.so_far, gn_null(g, s.node) ? 0 : known - 1);
            break;
        }
        for (int c = 0; c < g->n_cls; c++) {
            const gnode to = gn_step(g, s.node, c);
            if (to == G_NONE) continue;
            const uint32_t rest = measure(g, to, false);
            hunt_put(&h, (struct seen){to, at, s.so_far + 1, sum(s.so_far + 1, rest)});
        }
    }
    for (uint32_t i = at; found != GRAM_INF; i = h.v[i].from) {
        keep(g, h.v[i].node, found - h.v[i].so_far);
        if (!i) break;
    }
    free(h.v);
    free(h.heap);
    return found;
}

/* ---- rules ---- */

/* Finds how few bytes each rule needs: goes round until nothing becomes shorter. */
static void know_rules(struct grammar *g) {
    bool changed = true;
    for (uint32_t r = 0; r < g->n_rule; r++) g->rule[r].least = GRAM_INF;
    const gnode n_node = g->n_node;
    for (int round = 0; changed && round < DEPTH_MAX; round++) {
        changed = false;
        for (gnode i = 0; i < n_node; i++) {
            if (gn_regular(g, i)) continue;
            kept(g, i)->bytes = 0;
            keep(g, i, measure(g, i, true));
        }
        for (uint32_t r = g->n_rule; r-- > 0;) {
            const uint32_t len = measure(g, g->rule[r].body, true);
            changed |= len < g->rule[r].least;
            g->rule[r].least = least2(len, g->rule[r].least);
        }
    }
    g->least_known = true;
}

/* ---- places ---- */

static uint32_t tail_needs(struct grammar *g, uint32_t tail) {
    uint32_t len = 0;
    for (; tail && len != GRAM_INF; tail = g->tail[tail].parent)
        len = sum(len, measure(g, g->tail[tail].node, true));
    return len;
}

/* Returns how few bytes complete a text behind c; *best gets the item that leads there: of several
 * one that begins with a byte, because the others may lead back to c. */
static uint32_t conf_needs(struct grammar *g, const struct gconf *c, int *best) {
    uint32_t len = c->can_end ? 0 : GRAM_INF;
    bool goes_on = false;
    if (!g->least_known) know_rules(g);
    for (int i = 0; i < c->n && len; i++) {
        const uint32_t head = measure(g, c->it[i].head, true);
        const uint32_t x = sum(head, tail_needs(g, c->it[i].tail));
        if (x < len || (x == len && x != GRAM_INF && head && !goes_on)) {
            len = x;
            goes_on = head != 0;
            *best = i;
        }
    }
    return len;
}

/* Appends a shortest text of the regular language n. Of several bytes that lead there, one is taken
 * that a person would write. */
static bool write_node(struct grammar *g, gnode n, struct buf *out) {
    static const char liked[] =
        "\"}])'0123456789aeiouxyz ABCDEFGHIJKLMNOPQRSTUVWXYZbcdfghjklmnpqrstvw-_.:/<>{[(,";
    for (uint32_t left = measure(g, n, true); left; left--) {
        int byte = -1;
        if (left == GRAM_INF || out->len > WAY_MAX) return false;
        for (size_t i = 0; liked[i] && byte < 0; i++) {
            const gnode to = gn_step(g, n, g->cls[(uint8_t)liked[i]]);
            if (to != G_NONE && measure(g, to, true) == left - 1) byte = (uint8_t)liked[i];
        }
        for (int c = 0; c < g->n_cls && byte < 0; c++) {
            const gnode to = gn_step(g, n, c);
            if (to != G_NONE && measure(g, to, true) == left - 1) byte = g->rep[c];
        }
        if (byte < 0) return false;
        buf_chr(out, (char)(uint8_t)byte);
        n = gn_step(g, n, g->cls[byte]);
    }
    return true;
}

/* Appends the bytes of a short text that completes what comes behind c. */
static bool write_way(struct grammar *g, const struct gconf *from, struct buf *out) {
    struct gconf *c = xmalloc(sizeof *c), *next = xmalloc(sizeof *next);
    bool ok = true;
    gconf_copy(c, from);
    for (int parts = 0; ok && !g->full; parts++) {
        int best = 0;
        const uint32_t len = conf_needs(g, c, &best);
        if (len == 0) break;
        const struct gitem it = c->it[best];
        ok =
            len != GRAM_INF && parts < WAY_MAX && out->len < WAY_MAX && write_node(g, it.head, out);
        gconf_pop(g, it.tail, next);
        gconf_copy(c, next);
    }
    free(c);
    free(next);
    return ok && !g->full;
}

/* Finds the fewest tokens that spell the n bytes of s. Returns how many, GRAM_INF when there are no
 * such tokens, and appends them to `out` unless that is NULL. */
static uint32_t spell(const struct gram_vocab *v, const char *s, size_t n, struct ids *out) {
    struct step {
        uint32_t tokens, len; /* the fewest tokens from here on, the first of so many bytes */
        int32_t id;
    } *best = xcalloc(n + 1, sizeof *best);
    const struct gtrie *t = &v->all;
    for (size_t i = n; i-- > 0;) {
        uint32_t from = 0, to = t->n;
        best[i].tokens = GRAM_INF;
        for (size_t k = i; k < n; k++) {
            while (from < to && t->v[from].byte != (uint8_t)s[k]) from = t->v[from].skip;
            if (from >= to) break;
            const struct gtrie_node *x = &t->v[from];
            const uint32_t all = sum(best[k + 1].tokens, 1);
            if (x->first < x[1].first && all <= best[i].tokens && all != GRAM_INF)
                best[i] = (struct step){all, (uint32_t)(k + 1 - i), t->id[x->first]};
            to = x->skip;
            from++;
        }
    }
    const uint32_t all = best[0].tokens;
    for (size_t i = 0; out && all != GRAM_INF && i < n; i += best[i].len) ids_add(out, best[i].id);
    free(best);
    return all;
}

/* Returns how many tokens spell a shortest text of the regular language n. */
static uint32_t node_tokens(struct grammar *g, gnode n) {
    struct buf text = {0};
    uint32_t tokens = kept(g, n)->tokens;
    if (tokens) return tokens == GRAM_INF ? GRAM_INF : tokens - 1;
    tokens = write_node(g, n, &text) ? spell(g->v, text.data, text.len, NULL) : GRAM_INF;
    kept(g, n)->tokens = tokens == GRAM_INF ? GRAM_INF : tokens + 1;
    buf_release(&text);
    return tokens;
}

/* Returns how many tokens complete what is behind the stack, when each part of the text is spelled
 * on its own. That is remembered for each stack on the way. */
static uint32_t tail_tokens(struct grammar *g, uint32_t tail) {
    struct gconf *c = xmalloc(sizeof *c);
    struct stop {
        uint32_t tail, tokens;
    } *way = NULL;
    uint32_t n = 0, cap = 0, len = 0;
    while (tail && !g->tail[tail].tokens && n < WAY_MAX) {
        int best = 0;
        gconf_pop(g, tail, c);
        const uint32_t need = conf_needs(g, c, &best);
        if (n == cap) {
            cap = cap ? 2 * cap : 16;
            way = xreallocarray(way, cap, sizeof *way);
        }
        way[n].tail = tail;
        way[n++].tokens = need == 0          ? 0
                          : need == GRAM_INF ? GRAM_INF
                                             : node_tokens(g, c->it[best].head);
        tail = need == 0 || need == GRAM_INF ? 0 : c->it[best].tail;
    }
    if (tail)
        len =
            n == WAY_MAX || g->tail[tail].tokens == GRAM_INF ? GRAM_INF : g->tail[tail].tokens - 1;
    while (n-- > 0) {
        len = sum(len, way[n].tokens);
        g->tail[way[n].tail].tokens = len == GRAM_INF ? GRAM_INF : len + 1;
    }
    free(way);
    free(c);
    return len;
}

/* ---- what others ask ---- */

int64_t gram_least(const struct gram_state *s) {
    int best = 0;
    if (gram_may_end(s)) return 0;
    pthread_mutex_lock(&s->g->lock);
    const uint32_t len = conf_needs(s->g, &s->c, &best);
    pthread_mutex_unlock(&s->g->lock);
    return len == GRAM_INF ? -1 : (int64_t)len;
}

bool gram_way_out(const struct gram_state *s, struct ids *out) {
    struct buf way = {0};
    if (gram_may_end(s)) return true;
    pthread_mutex_lock(&s->g->lock);
    bool ok = write_way(s->g, &s->c, &way);
    pthread_mutex_unlock(&s->g->lock);
    ok = ok && spell(s->g->v, way.data, way.len, out) != GRAM_INF;
    buf_release(&way);
    return ok;
}

bool gram_ends_within(const struct gram_state *s, int64_t most) {
    struct grammar *g = s->g;
    int best = 0;
    if (gram_may_end(s)) return true;
    if (most <= 0) return false;
    pthread_mutex_lock(&g->lock);
    const uint32_t bytes = conf_needs(g, &s->c, &best);
    bool ok = g->v->has_bytes && bytes <= most, known = bytes != GRAM_INF;
    if (!ok && known)
        ok = sum(node_tokens(g, s->c.it[best].head), tail_tokens(g, s->c.it[best].tail)) <= most;
    pthread_mutex_unlock(&g->lock);
    if (ok || !known || bytes > most * (int64_t)g->v->longest) return ok;
    struct ids way = {0};
    ok = gram_way_out(s, &way) && way.n <= most;
    ids_release(&way);
    return ok;
}
