// SPDX-License-Identifier: MIT
/* quantize/enc/grid_merge.h - merges chains of grid entries (grid_hull.h): those of two entries
 * that share a sign group, and all chains of a sub-block, which yields its error at every scale. */
#ifndef HONE_QUANTIZE_ENC_GRID_MERGE_H
#define HONE_QUANTIZE_ENC_GRID_MERGE_H

#include "quantize/enc/grid_hull.h"

/* ---- two entries that share a sign group ----------------------------------------------------- */

/* Iterator over the vertices of the sum of two chains, in order. */
struct walk {
    const struct chain *a, *b;
    int i, j;
    bool done;
    struct vertex v;
};

INLINE void walk_look(struct walk *w) {
    const struct vertex *a = &w->a->v[w->i], *b = &w->b->v[w->j];
    const struct vertex v = {a->q + b->q, a->p + b->p, 0, {a->g[0], b->g[0]}};
    w->v = v;
}
INLINE void walk_on(struct walk *w) {
    const bool ai = w->i + 1 < w->a->n, bj = w->j + 1 < w->b->n;
    w->done = !ai && !bj;
    if (w->done) return;
    if (ai && (!bj || w->a->v[w->i + 1].below >= w->b->v[w->j + 1].below))
        w->i++;
    else
        w->j++;
    walk_look(w);
}

/* Joins two chains, one of which must take the flip, into the upper hull of the two choices, which
 * has the cheaper one at each scale. c holds the chains without a flip and `flipped` those with
 * one; the result is c[0]. h is scratch. */
LANE_FN void chain_either(struct chain *c, const struct chain *flipped, struct vertex *h) {
    struct walk x = {&c[0], &flipped[1], 0, 0, false, {0, 0, 0, {0, 0}}};
    struct walk y = {&flipped[0], &c[1], 0, 0, false, {0, 0, 0, {0, 0}}};
    int n = 0;
    walk_look(&x);
    walk_look(&y);
    while (!x.done || !y.done) {
        const bool first =
            y.done || (!x.done && (x.v.q < y.v.q || (x.v.q == y.v.q && x.v.p >= y.v.p)));
        const struct vertex v = first ? x.v : y.v;
        walk_on(first ? &x : &y);
        if (n && !(v.q > h[n - 1].q && v.p > h[n - 1].p)) {
            if (v.p <= h[n - 1].p) continue; /* more Q without more P */
            n--;
        }
        while (n >= 2 && (h[n - 1].p - h[n - 2].p) * (v.q - h[n - 2].q) <=
                             (v.p - h[n - 2].p) * (h[n - 1].q - h[n - 2].q))
            n--;
        h[n++] = v;
    }
    c->n = n < CHAIN_MAX ? n : CHAIN_MAX;
    for (int i = 0; i < c->n; i++) c->v[i] = h[i];
    chain_breaks(c);
}

/* Computes the chains for the weights of octet o in variant `way`: one chain, or two for types with
 * entries of 4 weights. The second is empty if a flip ties the two entries together. `flipped` is
 * scratch for two chains if the type also has parity; otherwise NULL. */
LANE_FN void octet_chains(const struct grid_how *h, const struct grid_data *d, struct grid_room *r,
                          struct chain *flipped, int o, int way, struct chain *c) {
    const bool odd = h->s->parity && odd_bits(d->sign[o]);
    if (h->s->per == 8) {
        entry_chain(h, d, r, o, odd, way, c);
        return;
    }
    for (int e = 0; e < (odd ? 4 : 2); e++)
        entry_chain(h, d, r, 2 * o + e % 2, e >= 2, way, e < 2 ? &c[e] : &flipped[e - 2]);
    if (odd && lane_one()) {
        chain_either(c, flipped, r->u.h);
        c->first = 2 * o;
        c->entries = 2;
        c[1].n = 0;
    }
}

/* ---- sub-blocks ------------------------------------------------------------------------------ */

struct seg { /* segment of a sub-block's error: c*(c*q - 2*p) + const for c < below */
    float below, q, p;
};
struct found {
    float d, err;
    uint8_t sc[GRID_SUBS];
};
enum { GRID_CHAINS = 64, START_MAX = 72, KEEP_MAX = 12 };
/* State of a super-block's search, from its chains to its bytes. A sub-block has one or more
 * variants ("ways": one per shift, if it shares its shift), and each variant has grid_slots(s)
 * consecutive chains. */
struct grid_job {
    struct chain chain[GRID_CHAINS];
    struct seg seg[GRID_CHAINS * CHAIN_MAX];
    int n_seg[GRID_SUBS];
    float fit[GRID_SUBS];   /* per sub-block: best real-valued scale, in units of `unit` */
    float merit[GRID_SUBS]; /* per sub-block: error reduction at that scale */
    float start[START_MAX], err[START_MAX];
    int kept[KEEP_MAX]; /* starts selected for refinement */
    struct found found[KEEP_MAX], best;
    struct grid_block mine;
};

/* Returns the number of chains per variant. */
INLINE int grid_slots(const struct grid_spec *s) {
    return s->sub / s->per;
}
INLINE int grid_chain_at(const struct grid_spec *s, int o, int way) {
    const int k = 8 * o / s->sub, in = o % (s->sub / 8) * (8 / s->per);
    return (k * grid_ways(s) + way) * grid_slots(s) + in;
}

/* Merges the chains of variant v into segments, and updates the merit and fit of its sub-block
 * k. */
LANE_FN void merge_chains(const struct grid_spec *s, struct grid_job *j, int v, int k) {
    const int nc = grid_slots(s);
    const struct chain *chain = j->chain + v * nc;
    struct seg *seg = j->seg + v * nc * CHAIN_MAX;
    uint8_t at[8] = {0};
    int n = 0;
    float q = 0, p = 0, below = INFINITY;
    for (int i = 0; i < nc; i++) {
        if (!chain[i].n) continue;
        q += chain[i].v[0].q;
        p += chain[i].v[0].p;
    }
    for (;;) {
        if (n && seg[n - 1].below == below) n--;
        const struct seg now = {below, q, p};
        seg[n++] = now;
        int next = -1;
        float top = -1;
        for (int i = 0; i < nc; i++) {
            const struct chain *c = &chain[i];
            if (at[i] + 1 < c->n && c->v[at[i] + 1].below > top) {
                top = c->v[at[i] + 1].below;
                next = i;
            }
        }
        if (next < 0) break;
        const struct vertex *e = &chain[next].v[at[next]++];
        q += e[1].q - e[0].q;
        p += e[1].p - e[0].p;
        below = top;
    }
    j->n_seg[v] = n;
    for (int i = 0; i < n; i++) {
        const float merit = seg[i].p > 0 ? seg[i].p * seg[i].p / seg[i].q : 0;
        if (merit > j->merit[k]) {
            j->merit[k] = merit;
            j->fit[k] = seg[i].p / seg[i].q / s->unit;
        }
    }
}

#endif
