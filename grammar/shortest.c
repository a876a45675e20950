// SPDX-License-Identifier: MIT
/* grammar/shortest.c - shortest completions, and the fewest tokens that spell them. A stack's
 * completion is computed once, from the lengths of min_len.c, as a chain of parts that other stacks
 * share. A position's completion is the rest of the current part followed by its stack's chain. */
#include "grammar/gram_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tok/tok.h"

enum { WAY_MAX = 1 << 15 }; /* longest completion in bytes, or deepest stack */

/* ---- bytes ---- */

/* Returns the first byte of a shortest text of the regular language n, or -1. If several bytes
 * qualify, prefers one that a person would write. */
static int first_byte(struct grammar *g, gnode n) {
    static const char liked[] =
        "\"}])'0123456789aeiouxyz ABCDEFGHIJKLMNOPQRSTUVWXYZbcdfghjklmnpqrstvw-_.:/<>{[(,";
    const uint32_t rest = gn_least(g, n) - 1;
    int byte = gn_kept(g, n)->first - 1;
    if (byte >= 0) return byte;
    for (size_t i = 0; liked[i] && byte < 0; i++) {
        const gnode to = gn_step(g, n, g->cls[(uint8_t)liked[i]]);
        if (to != G_NONE && gn_least(g, to) == rest) byte = (uint8_t)liked[i];
    }
    for (int c = 0; c < g->n_cls && byte < 0; c++) {
        const gnode to = gn_step(g, n, c);
        if (to != G_NONE && gn_least(g, to) == rest) byte = g->rep[c];
    }
    gn_kept(g, n)->first = (uint16_t)(byte + 1);
    return byte;
}

/* Appends a shortest text of the regular language n to g->spelled, without filling in tokens.
 * False: it is too long. */
static bool write_node(struct grammar *g, gnode n) {
    const uint32_t len = gn_least(g, n);
    if (len > WAY_MAX) return false;
    for (uint32_t i = 0; i < len; i++) {
        const int byte = first_byte(g, n);
        if (byte < 0) return false;
        g->spelled = grammar_grow(g, g->spelled, &g->cap_spelled, g->n_spelled, sizeof *g->spelled);
        g->spelled[g->n_spelled++] = (struct gspelled){.byte = (uint8_t)byte};
        n = gn_step(g, n, g->cls[byte]);
    }
    return true;
}

/* ---- tokens ---- */

struct cursor { /* position in a way: first g->spelled[at..end), then the way `next` */
    uint32_t at, end, next;
};

/* Returns a cursor at the beginning of a way. */
static struct cursor cursor_of(const struct grammar *g, uint32_t way) {
    const struct gway *w = &g->way[way];
    return (struct cursor){w->at, w->at + w->n, w->next};
}
/* Returns whether the way is at its end; moves on to the next part. */
static bool at_end(const struct grammar *g, struct cursor *c) {
    if (c->at == c->end && c->next) *c = cursor_of(g, c->next);
    return c->at == c->end;
}

/* Computes the fewest tokens that spell the way starting at byte `at` of g->spelled, given the
 * counts for all later bytes. */
static void spell_from(const struct grammar *g, uint32_t way, uint32_t at) {
    const struct gtrie *t = &g->v->all;
    struct gspelled *s = &g->spelled[at];
    struct cursor c = cursor_of(g, way);
    uint32_t from = 0, to = t->n;
    s->tokens = GRAM_INF;
    c.at = at;
    for (uint16_t len = 1; !at_end(g, &c); len++) {
        while (from < to && t->v[from].byte != g->spelled[c.at].byte) from = t->v[from].skip;
        if (from >= to) break;
        const struct gtrie_node *x = &t->v[from];
        c.at++;
        const uint32_t all = gn_sum(at_end(g, &c) ? 0 : g->spelled[c.at].tokens, 1);
        if (x->first < x[1].first && all <= s->tokens && all != GRAM_INF) {
            s->tokens = all;
            s->id = t->id[x->first];
            s->len = len;
        }
        to = x->skip;
        from++;
    }
}

/* Returns the number of tokens that the way takes; 0 for way 0. */
static uint32_t way_tokens(const struct grammar *g, uint32_t way) {
    return way ? g->spelled[g->way[way].at].tokens : 0;
}

/* Appends the tokens of the way. */
static void way_ids(const struct grammar *g, uint32_t way, struct ids *out) {
    struct cursor c = cursor_of(g, way);
    while (!at_end(g, &c)) {
        uint32_t n = g->spelled[c.at].len;
        ids_add(out, g->spelled[c.at].id);
        for (; n && !at_end(g, &c); n--) c.at++;
    }
}

/* ---- ways ---- */

/* Creates a way: a shortest text of n, followed by the way `next`. Returns GRAM_INF if no such text
 * is known or the way is too long. */
static uint32_t add_way(struct grammar *g, gnode n, uint32_t next) {
    const uint32_t at = g->n_spelled, way = g->n_way;
    if (gn_least(g, n) == 0) return next;
    if (!write_node(g, n) || g->full || g->n_spelled - at + g->way[next].n_bytes > WAY_MAX) {
        g->n_spelled = at;
        return GRAM_INF;
    }
    g->way = grammar_grow(g, g->way, &g->cap_way, way, sizeof *g->way);
    g->way[g->n_way++] =
        (struct gway){at, g->n_spelled - at, next, g->n_spelled - at + g->way[next].n_bytes};
    for (uint32_t i = g->n_spelled; i-- > at;) spell_from(g, way, i);
    return way;
}

/* Returns the stack that remains after item i of c. If the item's head completes a name, assumes
 * the shortest one. GRAM_INF: none. */
static uint32_t tail_named(struct grammar *g, const struct gconf *c, int i) {
    const struct gitem it = c->it[i];
    const uint32_t at = g->n_spelled;
    struct gname name;
    if (!gtail_named(g, it.tail)) return it.tail;
    gname_copy(&name, &c->name);
    const bool ok = write_node(g, it.head);
    for (uint32_t k = at; k < g->n_spelled; k++) gname_add(&name, g->spelled[k].byte);
    g->n_spelled = at;
    return ok ? gconf_named(g, it.tail, &name) : GRAM_INF;
}

/* Returns the way that completes the stack, or GRAM_INF. Also caches the ways of the stacks below
 * it. */
static uint32_t way_behind(struct grammar *g, uint32_t tail) {
    struct gconf *c = xmalloc(sizeof *c);
    struct stop {
        uint32_t tail;
        gnode head;
    } *stop = NULL;
    uint32_t n = 0, cap = 0, need = 1;
    while (tail && !g->tail[tail].way && need && need != GRAM_INF && n < WAY_MAX) {
        int best = 0;
        gconf_pop(g, tail, NULL, c);
        need = gconf_least(g, c, &best);
        if (n == cap) {
            cap = cap ? 2 * cap : 16;
            stop = xreallocarray(stop, cap, sizeof *stop);
        }
        const bool on = need && need != GRAM_INF;
        stop[n++] = (struct stop){tail, on ? c->it[best].head : G_EPS};
        tail = on ? tail_named(g, c, best) : 0;
        if (tail == GRAM_INF) need = GRAM_INF, tail = 0;
    }
    uint32_t way = tail && g->tail[tail].way ? g->tail[tail].way - 1 : 0;
    if (need == GRAM_INF || n == WAY_MAX || (tail && g->tail[tail].way == GRAM_INF)) way = GRAM_INF;
    while (n-- > 0) {
        if (way != GRAM_INF) way = add_way(g, stop[n].head, way);
        g->tail[stop[n].tail].way = way == GRAM_INF ? GRAM_INF : way + 1;
    }
    free(stop);
    free(c);
    return way;
}

/* Returns a way that completes c beginning with its item `best`, or GRAM_INF. It is valid until the
 * next way is created. */
static uint32_t way_from(struct grammar *g, const struct gconf *c, int best) {
    if (!g->n_way) { /* the empty way */
        g->way = grammar_grow(g, g->way, &g->cap_way, 0, sizeof *g->way);
        g->way[g->n_way++] = (struct gway){0};
    }
    const uint32_t tail = tail_named(g, c, best);
    const uint32_t rest = tail == GRAM_INF ? GRAM_INF : way_behind(g, tail);
    const uint32_t n_way = g->n_way, n_spelled = g->n_spelled;
    const uint32_t way = rest == GRAM_INF ? GRAM_INF : add_way(g, c->it[best].head, rest);
    g->n_way = n_way;
    g->n_spelled = n_spelled;
    return way;
}

/* ---- public functions ---- */

int64_t gram_least(const struct gram_state *s) {
    int best = 0;
    if (gram_may_end(s)) return 0;
    pthread_mutex_lock(&s->g->lock);
    gram_call(s->g);
    const uint32_t len = gconf_least(s->g, &s->c, &best);
    gram_call_end(s->g);
    pthread_mutex_unlock(&s->g->lock);
    return len == GRAM_INF ? -1 : (int64_t)len;
}

bool gram_way_out(const struct gram_state *s, struct ids *out) {
    struct grammar *g = s->g;
    uint32_t way = GRAM_INF;
    int best = 0;
    if (gram_may_end(s)) return true;
    pthread_mutex_lock(&g->lock);
    gram_call(g);
    if (gconf_least(g, &s->c, &best) != GRAM_INF) way = way_from(g, &s->c, best);
    const bool ok = way != GRAM_INF && way_tokens(g, way) != GRAM_INF;
    if (ok) way_ids(g, way, out);
    gram_call_end(g);
    pthread_mutex_unlock(&g->lock);
    return ok;
}

bool gram_ends_within(const struct gram_state *s, int64_t most) {
    struct grammar *g = s->g;
    int best = 0;
    if (gram_may_end(s)) return true;
    if (most <= 0) return false;
    pthread_mutex_lock(&g->lock);
    gram_call(g);
    const uint32_t bytes = gconf_least(g, &s->c, &best);
    bool ok = g->v->has_bytes && bytes <= most;
    if (!ok && bytes != GRAM_INF && bytes <= most * (int64_t)g->v->longest) {
        const uint32_t way = way_from(g, &s->c, best);
        ok = way != GRAM_INF && way_tokens(g, way) <= most;
    }
    gram_call_end(g);
    pthread_mutex_unlock(&g->lock);
    return ok;
}
