// SPDX-License-Identifier: MIT
/* quantize/enc/grid_hull.h - the chain of one grid entry (gridq.c): the points (Q, P) of all
 * entries and the vertices of their upper hull.
 *
 * Written for lanes (lanes.h), each of which takes some of the entries. The result does not depend
 * on how entries map to lanes: among equal points, the lowest entry wins.
 *
 * The hull starts from the entry with the least Q and the best entries at three scales. Entries
 * above the polyline through these are listed. Between two vertices, the entry farthest above their
 * chord becomes a vertex; this is repeated until no entry is above. A CPU keeps the points of all
 * entries (GRID_KEEPS). A device, with its small shared memory, recomputes them and lists at most
 * GRID_LIST; it searches again for points beyond that each time. */
#ifndef HONE_QUANTIZE_ENC_GRID_HULL_H
#define HONE_QUANTIZE_ENC_GRID_HULL_H

#include "quantize/enc/lanes.h"

enum {
    CHAIN_MAX = 40,
    GRID_STARTS = 3,
    GRID_FLIP = 0x8000,          /* in vertex.g: least important sign flipped */
    GRID_START_AT = GRID_LIST,   /* list positions: the starts */
    GRID_REST_AT = GRID_LIST + 8 /* entries beyond those listed */
};

struct vertex {
    float q, p;
    float below;   /* best for scales below this, down to the `below` of the next vertex */
    uint16_t g[2]; /* grid entries */
};
struct chain { /* from large scales (least Q) to small ones */
    struct vertex v[CHAIN_MAX];
    int n;              /* vertices; 0: the previous chain also decides this entry */
    int first, entries; /* entries of the block that it decides: 1 or 2 */
};
struct grid_list { /* entries and their points */
    float q[GRID_REST_AT], p[GRID_REST_AT];
    uint16_t g[GRID_REST_AT];
};
struct grid_room { /* scratch for one chain at a time */
    float q[GRID_KEEPS ? GRID_MAX : 1], p[GRID_KEEPS ? GRID_MAX : 1];
    union {
        struct grid_list list;
        struct vertex h[4 * CHAIN_MAX]; /* for joining two finished chains (grid_merge.h) */
    } u;
};

struct cloud {
    const float *lev; /* [element][GRID_MAX] levels */
    int n;            /* entries */
    float w[8], wa[8];
    bool flip; /* apply the flip where the type allows it */
    struct grid_room *room;
    int n_list; /* padded to whole vectors */
    int rest;   /* first entry not examined when the list was full */
};
struct points {
    vf q, p;
};
struct point {
    float q, p;
    int g;
};
struct sides { /* p = icept + slope*q; unused sides repeat the last one */
    float icept[GRID_STARTS], slope[GRID_STARTS];
};

/* Computes the points of entries first, first + 1, ... or, with `one`, those of entry `first` in
 * all lanes. */
INLINE struct points points_of(const struct cloud *c, int per, bool flip, int first, bool one) {
    vf q = splat(0), p = splat(0), least = splat(INFINITY);
    LANE_UNROLL(8)
    for (int j = 0; j < per; j++) {
        const float *lev = c->lev + j * GRID_MAX + first;
        const vf l = one ? splat(*lev) : loadv(lev), x = c->wa[j] * l;
        q += c->w[j] * l * l;
        p += x;
        if (flip) least = minv(x, least);
    }
    if (flip && (GRID_KEEPS || c->flip)) p -= 2.0f * least;
    const struct points o = {q, p};
    return o;
}
INLINE struct points points_again(const struct cloud *c, int per, bool flip, int first) {
    if (!GRID_KEEPS) return points_of(c, per, flip, first, false);
    const struct points o = {loadv(c->room->q + first), loadv(c->room->p + first)};
    return o;
}
INLINE struct point point_of(const struct cloud *c, int per, bool flip, int g) {
    struct point o = {0, 0, g};
    if (GRID_KEEPS) {
        o.q = c->room->q[g];
        o.p = c->room->p[g];
        return o;
    }
    const struct points t = points_of(c, per, flip, g, true);
    o.q = lane_get(t.q, 0);
    o.p = lane_get(t.p, 0);
    return o;
}
/* Returns the point at a position of the list. */
INLINE struct point point_at(const struct cloud *c, int per, bool flip, int at) {
    const struct grid_list *l = &c->room->u.list;
    if (!GRID_KEEPS && at >= GRID_REST_AT) return point_of(c, per, flip, at - GRID_REST_AT);
    const struct point o = {l->q[at], l->p[at], l->g[at]};
    return o;
}

/* Computes the points. top[]: the entries with the largest P - half*Q. */
INLINE void cloud_points(const struct cloud *c, int per, bool flip, const float *half, int *top) {
    vf best[GRID_STARTS];
    vi at[GRID_STARTS], now = numbers();
    for (int s = 0; s < GRID_STARTS; s++) {
        best[s] = splat(-INFINITY);
        at[s] = now;
    }
    for (int i = 0; i < c->n; i += LANES, now += LANES) {
        const struct points t = points_of(c, per, flip, i, false);
        if (GRID_KEEPS) {
            storev(c->room->q + i, t.q);
            storev(c->room->p + i, t.p);
        }
        LANE_UNROLL(3)
        for (int s = 0; s < GRID_STARTS; s++) {
            const vf v = t.p - half[s] * t.q;
            const vi m = v > best[s];
            best[s] = pick(m, v, best[s]);
            at[s] = pick_int(m, now, at[s]);
        }
    }
    LANE_UNROLL(3)
    for (int s = 0; s < GRID_STARTS; s++) top[s] = most(best[s], at[s]).at;
}

INLINE vi above(const struct sides *l, struct points t) {
    vf line = l->icept[0] + l->slope[0] * t.q;
    LANE_UNROLL(3)
    for (int s = 1; s < GRID_STARTS; s++) line = minv(l->icept[s] + l->slope[s] * t.q, line);
    return t.p > line;
}

/* Lists the entries above the polyline, padded to whole vectors. */
INLINE void list_above(struct cloud *c, int per, bool flip, const struct sides *line) {
    const struct grid_room *r = c->room;
    struct grid_list *l = &c->room->u.list;
    int k = 0, i = 0;
    for (; i < c->n && (GRID_KEEPS || k <= GRID_LIST - LANES); i += LANES) {
        const struct points t = points_again(c, per, flip, i);
        k = append(l->g, l->q, l->p, k, above(line, t), i, t.q, t.p);
    }
    c->rest = i;
    for (int j = 0; GRID_KEEPS && j < k; j++) {
        l->q[j] = r->q[l->g[j]];
        l->p[j] = r->p[l->g[j]];
    }
    for (; k % LANES; k++)
        if (lane_one()) {
            l->q[k] = 0;
            l->p[k] = -INFINITY;
        }
    c->n_list = k;
    lanes_sync();
}

/* Updates *best and *at with the points (of entries `now`) that are farthest above the chord from a
 * to b. */
INLINE void higher(struct points t, vi now, struct point a, struct point b, vf *best, vi *at) {
    const float dq = b.q - a.q, dp = b.p - a.p;
    const vf h = (t.p - a.p) * dq - (t.q - a.q) * dp;
    const vi m = (h > *best) & (t.q > a.q) & (t.q < b.q);
    *best = pick(m, h, *best);
    *at = pick_int(m, now, *at);
}

INLINE struct most farthest(const struct cloud *c, int per, bool flip, const struct sides *line,
                            struct point a, struct point b) {
    const struct grid_list *l = &c->room->u.list;
    vf best = splat(0);
    vi at = numbers(), now = numbers();
    for (int i = 0; i < c->n_list; i += LANES, now += LANES) {
        const struct points t = {loadv(l->q + i), loadv(l->p + i)};
        higher(t, now, a, b, &best, &at);
    }
    for (int i = c->rest; !GRID_KEEPS && i < c->n; i += LANES) {
        struct points t = points_of(c, per, flip, i, false);
        t.p = pick(above(line, t), t.p, splat(-INFINITY));
        higher(t, numbers() + (GRID_REST_AT + i), a, b, &best, &at);
    }
    return most(best, at);
}

INLINE void add_vertex(struct chain *o, int *n, struct point t, int mark) {
    if (lane_one()) {
        const struct vertex v = {t.q, t.p, 0, {(uint16_t)(t.g + mark), 0}};
        o->v[*n] = v;
    }
    ++*n;
}

/* Appends the hull vertices after list position `from`, up to and including `to`, in order of
 * decreasing scale. */
INLINE void refine(const struct cloud *c, int per, bool flip, const struct sides *l, int from,
                   int to, int mark, struct chain *o, int *n) {
    uint16_t todo[CHAIN_MAX];
    int depth = 0;
    struct point a = point_at(c, per, flip, from);
    todo[depth++] = (uint16_t)to;
    while (depth) {
        const struct point b = point_at(c, per, flip, todo[depth - 1]);
        const struct most m = farthest(c, per, flip, l, a, b);
        if (m.v > 0 && *n + depth < CHAIN_MAX) {
            todo[depth++] = (uint16_t)m.at;
            continue;
        }
        add_vertex(o, n, b, mark);
        a = b;
        depth--;
    }
}

/* Stores a starting point. */
INLINE void keep_start(const struct cloud *c, int s, struct point t) {
    struct grid_list *l = &c->room->u.list;
    if (!lane_one()) return;
    l->q[GRID_START_AT + s] = t.q;
    l->p[GRID_START_AT + s] = t.p;
    l->g[GRID_START_AT + s] = (uint16_t)t.g;
}

/* Computes the hull from the polyline through the starts and the entries above it. `low` is the
 * entry with the least Q; `mark` is added to entry numbers. */
INLINE void hull(struct cloud *c, int per, bool flip, int low, const int *top, int mark,
                 struct chain *o) {
    struct sides l = {{INFINITY, INFINITY, INFINITY}, {0, 0, 0}};
    struct point a = point_of(c, per, flip, low);
    int ns = 1, n = 0;
    add_vertex(o, &n, a, mark);
    keep_start(c, 0, a);
    LANE_UNROLL(3)
    for (int s = 0; s < GRID_STARTS; s++) { /* from large scales to small ones */
        const struct point b = point_of(c, per, flip, top[s]);
        const bool side = b.q > a.q && b.p > a.p;
        if (s > 0 && !side) {
            l.slope[s] = l.slope[s - 1];
            l.icept[s] = l.icept[s - 1];
        }
        if (!side) continue;
        l.slope[s] = (b.p - a.p) / (b.q - a.q);
        l.icept[s] = a.p - l.slope[s] * a.q;
        keep_start(c, ns++, b);
        a = b;
    }
    if (ns > 1) list_above(c, per, flip, &l);
    for (int s = 1; s < ns; s++)
        if (n < CHAIN_MAX)
            refine(c, per, flip, &l, GRID_START_AT + s - 1, GRID_START_AT + s, mark, o, &n);
    if (lane_one()) o->n = n;
}

/* Computes the scale at which each vertex takes over, decreasing along the chain. Drops vertices
 * that exist only because of rounding, e.g. when equal weights make entries equivalent. */
INLINE void chain_breaks(struct chain *c) {
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        struct vertex v = c->v[i];
        v.below = INFINITY;
        if (n && !(v.q > c->v[n - 1].q && v.p > c->v[n - 1].p)) continue;
        for (; n; n--) {
            const struct vertex *a = &c->v[n - 1];
            v.below = 2.0f * (v.p - a->p) / (v.q - a->q);
            if (v.below < a->below) break;
        }
        if (!n) v.below = INFINITY;
        c->v[n++] = v;
    }
    c->n = n;
}

INLINE void cloud_hull(struct cloud *c, int per, bool flip, int low, const float *half, int mark,
                       struct chain *o) {
    int top[GRID_STARTS];
    cloud_points(c, per, flip, half, top);
    hull(c, per, flip, low, top, mark, o);
}

/* Computes the chain for the `per` weights of entry e of the block, using the grid entries of
 * variant `way` (gridq.h). */
LANE_FN void entry_chain(const struct grid_how *h, const struct grid_data *d, struct grid_room *r,
                         int e, bool flip, int way, struct chain *o) {
    const struct grid_spec *s = h->s;
    const bool three = s->shift != SHIFT_NONE; /* three levels: the best scales are smaller */
    const float typical = d->top[e * s->per / s->sub] / s->top;
    const float half[GRID_STARTS] = {(three ? 0.6f : 0.8f) * typical,
                                     (three ? 0.3f : 0.5f) * typical,
                                     (three ? 0.08f : 0.25f) * typical};
    const int from = way * s->n, mark = from + (flip ? GRID_FLIP : 0);
    struct cloud c;
    int low = h->low;
    float sum = 0;
    c.lev = h->lev + from;
    c.n = grid_n(s) / grid_ways(s);
    c.flip = flip;
    c.room = r;
    c.n_list = c.rest = 0;
    LANE_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        c.w[i] = i < s->per ? d->w[e * s->per + i] : 0;
        c.wa[i] = i < s->per ? d->wa[e * s->per + i] : 0;
        if (i < s->per) sum += c.wa[i];
    }
    if (s->shift == SHIFT_ENTRY && sum < 0) low += s->n; /* zeros, shifted towards the weights */
    lanes_sync();
    /* A separate copy of the loops for each entry length: unrolling makes encoding of IQ1 to IQ3
     * 1.2x as fast. On a device, octets with and without a flip run at the same time and share a
     * copy. */
    const bool may = GRID_KEEPS ? flip : s->parity;
    if (s->per == 8 && may)
        cloud_hull(&c, 8, true, low, half, mark, o);
    else if (s->per == 8)
        cloud_hull(&c, 8, false, low, half, mark, o);
    else if (may)
        cloud_hull(&c, 4, true, low, half, mark, o);
    else
        cloud_hull(&c, 4, false, low, half, mark, o);
    if (lane_one()) {
        o->first = e;
        o->entries = 1;
        chain_breaks(o);
    }
    lanes_sync();
}

#endif
