// SPDX-License-Identifier: MIT
/* grammar/derivative.c - the lazy automaton: Brzozowski derivatives of regular languages, cached
 * per node and byte class. Also seals a grammar: computes byte classes, finds rules that match
 * nothing, and rejects left recursion. */
#include "grammar/gram_int.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/printable.h"

enum { DEPTH_MAX = 2000, SEARCH_MAX = 20000, SEARCH_ALL = 20000, SEARCH_LATE = 200 };

/* ---- derivatives ---- */

struct alts {
    gnode *v, own[32];
    uint32_t n, cap;
};
/* Adds a node unless it is G_NONE. */
static void add_alt(struct alts *s, gnode n) {
    if (n == G_NONE) return;
    if (s->n == s->cap) {
        s->cap *= 2;
        gnode *v = xmalloc(s->cap * sizeof *v);
        memcpy(v, s->v, s->n * sizeof *v);
        if (s->v != s->own) free(s->v);
        s->v = v;
    }
    s->v[s->n++] = n;
}

/* Returns the derivative of a union or intersection by a byte. */
static gnode deriv_list(struct grammar *g, gnode n, uint8_t byte) {
    const struct gnode_data d = *gn(g, n);
    struct alts s = {.v = s.own, .cap = COUNT_OF(s.own)};
    bool dead = false;
    for (uint32_t i = 0; i < d.b && !dead; i++) {
        const gnode x = gn_deriv(g, g->list[d.a + i], byte);
        dead = d.kind == G_AND && x == G_NONE;
        add_alt(&s, x);
    }
    const gnode out = dead              ? (gnode)G_NONE
                      : d.kind == G_AND ? gn_ands(g, s.v, s.n)
                                        : gn_alts(g, s.v, s.n);
    if (s.v != s.own) free(s.v);
    return out;
}

/* Returns the derivative of a concatenation by a byte. */
static gnode deriv_cat(struct grammar *g, gnode n, uint8_t byte) {
    struct alts s = {.v = s.own, .cap = COUNT_OF(s.own)};
    for (;;) {
        const struct gnode_data d = *gn(g, n);
        if (d.kind != G_CAT) {
            add_alt(&s, gn_deriv(g, n, byte));
            break;
        }
        add_alt(&s, gn_cat(g, gn_deriv(g, d.a, byte), d.b));
        if (!gn_null(g, d.a)) break;
        n = d.b;
    }
    const gnode out = s.n == 1 ? s.v[0] : gn_alts(g, s.v, s.n);
    if (s.v != s.own) free(s.v);
    return out;
}

/* Returns the derivative of a repetition by a byte. */
static gnode deriv_rep(struct grammar *g, const struct gnode_data *d, uint8_t byte) {
    const gnode x = gn_deriv(g, d->a, byte);
    if (x == G_NONE) return G_NONE;
    const uint32_t hi = d->hi == GRAM_INF ? GRAM_INF : d->hi - 1;
    return gn_cat(g, x, gn_rep(g, d->a, d->lo ? d->lo - 1 : 0, hi));
}

/* Returns the derivative of a node by a byte; G_NONE: no text begins with it. */
static gnode deriv_of(struct grammar *g, gnode n, uint8_t byte) {
    const struct gnode_data d = *gn(g, n);
    switch ((enum gkind)d.kind) {
    case G_SET:
        return g->set[d.a].w[byte / 64] >> byte % 64 & 1 ? G_EPS : G_NONE;
    case G_CAT:
        return deriv_cat(g, n, byte);
    case G_ALT:
    case G_AND:
        return deriv_list(g, n, byte);
    case G_NOT:
        return gn_not(g, gn_deriv(g, d.a, byte));
    case G_REP:
        return deriv_rep(g, &d, byte);
    case G_MOD:
        if (byte < '0' || byte > '9') return G_NONE;
        return gn_mod(g, d.a, (d.b * 10 + byte - '0') % d.a);
    case G_NONE:
    case G_EPS:
    case G_RULE:
    case G_PICK:
    case G_NAMED:
        break;
    }
    return G_NONE;
}

/* Sets the grammar's error for too much nesting, unless it has one. */
static void fail_too_deep(struct grammar *g) {
    if (!g->full) g->full = "parts nested more than 2000 deep";
}

/* Returns the derivative by a byte, within limits of depth and cost; G_NONE beyond them. */
static gnode derive_node(struct grammar *g, gnode n, uint8_t byte) {
    if (g->depth >= DEPTH_MAX) fail_too_deep(g);
    if (g->full) return G_NONE;
    if (!gram_spend(g, 1)) return G_NONE;
    g->depth++;
    const gnode out = deriv_of(g, n, byte);
    g->depth--;
    return out;
}

gnode gn_deriv(struct grammar *g, gnode n, uint8_t byte) {
    const struct gnode_data *d = gn(g, n);
    if (g->sealed && d->kind == G_ALT && d->flags & GF_PLAIN) return gn_step(g, n, g->cls[byte]);
    return derive_node(g, n, byte);
}

/* ---- cached derivatives ---- */

/* Returns the node's row of cached derivatives, one per byte class. */
static uint32_t *row_of(struct grammar *g, gnode n) {
    if (n >= g->cap_row) {
        uint32_t to = g->cap_row ? g->cap_row : 256;
        while (to <= n) to *= 2;
        g->row = xreallocarray(g->row, to, sizeof *g->row);
        memset(g->row + g->cap_row, 0, (to - g->cap_row) * sizeof *g->row);
        g->bytes += (to - g->cap_row) * sizeof *g->row;
        g->cap_row = to;
    }
    if (!g->row[n]) {
        g->row[n] = xcalloc((size_t)g->n_cls, sizeof **g->row);
        g->bytes += (size_t)g->n_cls * sizeof **g->row;
    }
    return g->row[n];
}

gnode gn_step(struct grammar *g, gnode n, int cls) {
    if (n < g->cap_row && g->row[n] && g->row[n][cls]) return g->row[n][cls] - 1;
    gnode to = derive_node(g, n, g->rep[cls]);
    if (to && !gn_live(g, to)) to = G_NONE;
    if (g->full) return G_NONE;
    row_of(g, n)[cls] = to + 1;
    return to;
}

/* ---- emptiness ---- */

/* Marks node n as visited by the current search, g->search. Returns whether it was marked
 * before. */
static bool visit(struct grammar *g, gnode n) {
    if (n >= g->cap_seen) {
        const uint32_t to = g->n_node + g->n_node / 2 + 64;
        g->seen = xreallocarray(g->seen, to, sizeof *g->seen);
        memset(g->seen + g->cap_seen, 0, (to - g->cap_seen) * sizeof *g->seen);
        g->bytes += (to - g->cap_seen) * sizeof *g->seen;
        g->cap_seen = to;
    }
    const bool before = g->seen[n] == g->search;
    g->seen[n] = g->search;
    return before;
}

/* Returns whether n has any text, by breadth-first search over derivatives. If no text is found,
 * all visited nodes are recorded as dead, otherwise the nodes on the path to the text as alive.
 * Therefore a text of thousands of bytes is searched for only once, not at each of its bytes. If
 * the search exceeds its bound, the node counts as alive; the bound becomes small once a grammar
 * has searched a lot, so that no step takes long. */
static bool search(struct grammar *g, gnode n) {
    const uint32_t bound = g->n_searched < SEARCH_ALL ? SEARCH_MAX : SEARCH_LATE;
    uint32_t cap = 64, m = 1, at = 0;
    gnode *q = xmalloc(cap * sizeof *q);
    uint32_t *from_at = xcalloc(cap, sizeof *from_at), found = 0;
    bool live = false;
    if (!++g->search) { /* the counter wrapped: all marks are stale */
        memset(g->seen, 0, g->cap_seen * sizeof *g->seen);
        g->search = 1;
    }
    visit(g, n);
    q[0] = n;
    for (; at < m && !live; at++) {
        const gnode x = q[at];
        const uint8_t f = gn(g, x)->flags;
        live = f & GF_NULL || f & GF_PLAIN || (f & GF_KNOWN && f & GF_LIVE) || m > bound || g->full;
        if (live) found = at;
        if (live || f & GF_KNOWN) continue;
        for (int c = 0; c < g->n_cls && gram_spend(g, 1); c++) {
            const gnode to = gn_deriv(g, x, g->rep[c]);
            if (to == G_NONE || visit(g, to)) continue;
            if (m == cap) {
                q = xreallocarray(q, cap *= 2, sizeof *q);
                from_at = xreallocarray(from_at, cap, sizeof *from_at);
            }
            from_at[m] = at;
            q[m++] = to;
        }
    }
    for (uint32_t i = 0; i < m && !live; i++) g->node[q[i]].flags |= GF_KNOWN;
    for (uint32_t i = found; live && !g->full; i = from_at[i]) {
        g->node[q[i]].flags |= GF_KNOWN | GF_LIVE;
        if (!i) break;
    }
    if (live) g->node[n].flags |= GF_KNOWN | GF_LIVE;
    g->n_searched += m;
    free(q);
    free(from_at);
    return live;
}

/* Returns whether the sequence n has any text. If so, records that for each of its suffixes. */
static bool live_cat(struct grammar *g, gnode n) {
    gnode x = n;
    while (gn(g, x)->kind == G_CAT && !(gn(g, x)->flags & GF_KNOWN) && gn_live(g, gn(g, x)->a))
        x = gn(g, x)->b;
    const bool whole = gn(g, x)->kind != G_CAT || gn(g, x)->flags & GF_KNOWN;
    if (!whole || !gn_live(g, x)) return false;
    for (; n != x; n = gn(g, n)->b) g->node[n].flags |= GF_KNOWN | GF_LIVE;
    return true;
}

/* Returns whether n has any text. The parts decide for sequences, choices and repetitions; other
 * nodes are searched. Nodes nested too deep count as having text. */
static bool live_parts(struct grammar *g, gnode n) {
    const struct gnode_data d = *gn(g, n);
    if (g->depth >= DEPTH_MAX) return true;
    g->depth++;
    bool live = false;
    if (d.kind == G_CAT) {
        live = live_cat(g, n);
    } else if (d.kind == G_REP) {
        live = d.lo == 0 || gn_live(g, d.a);
    } else if (d.kind == G_ALT) {
        for (uint32_t i = 0; i < d.b && !live; i++) live = gn_live(g, g->list[d.a + i]);
    } else {
        live = search(g, n);
    }
    g->depth--;
    return live;
}

bool gn_live(struct grammar *g, gnode n) {
    const uint8_t f = gn(g, n)->flags;
    if (f & GF_PLAIN) return n != G_NONE;
    if (f & GF_KNOWN) return f & GF_LIVE;
    const bool live = f & GF_NULL || live_parts(g, n);
    g->node[n].flags |= live ? GF_KNOWN | GF_LIVE : GF_KNOWN;
    return live;
}

/* ---- sealing ---- */

/* Groups bytes into classes that no set of the grammar tells apart: sets g->cls, g->rep,
 * g->cls_size and g->n_cls. */
static void make_classes(struct grammar *g) {
    uint8_t cls[256] = {0};
    int n = 1;
    /* Bytes that need their own class: digits for G_MOD, ASCII for unique names. */
    const uint32_t from = g->has_other ? ' ' : '0', extra = g->has_other ? 0x7f - ' '
                                                            : g->has_mod ? 10
                                                                         : 0;
    for (uint32_t s = 0; s < g->n_set + extra && n < 256; s++) {
        int split[256];
        struct gset one = {{0}};
        const struct gset *set = s < g->n_set ? &g->set[s] : &one;
        const uint32_t byte = s >= g->n_set ? from + s - g->n_set : 0;
        if (s >= g->n_set) one.w[byte / 64] = (uint64_t)1 << byte % 64;
        bool in[256] = {false}, out[256] = {false};
        for (int b = 0; b < 256; b++) {
            const bool has = set->w[b / 64] >> b % 64 & 1;
            in[cls[b]] |= has;
            out[cls[b]] |= !has;
        }
        const int before = n;
        for (int c = 0; c < before; c++) split[c] = in[c] && out[c] ? n++ : c;
        for (int b = 0; b < 256; b++)
            if (set->w[b / 64] >> b % 64 & 1) cls[b] = (uint8_t)split[cls[b]];
    }
    memcpy(g->cls, cls, sizeof cls);
    for (int b = 255; b >= 0; b--) {
        g->rep[cls[b]] = (uint8_t)b;
        g->cls_size[cls[b]]++;
    }
    g->n_cls = n;
}

/* Returns whether n matches any text; for irregular nodes, as far as is known so far. */
static bool live_part(struct grammar *g, gnode n) {
    return gn_regular(g, n) ? gn_live(g, n) : gn(g, n)->flags & GF_LIVE;
}

/* Returns, as bits, the rows of p that can be written together with all rows they need. Sets *must
 * to the required rows and those that they need. */
static uint64_t usable(struct grammar *g, const struct gpick *p, uint64_t *must) {
    uint64_t live = 0, out = 0;
    *must = p->required;
    for (int i = 0; i < p->n; i++) {
        if (live_part(g, p->row[i].body)) live |= (uint64_t)1 << i;
        if (p->required >> i & 1) *must |= p->row[i].needs;
    }
    for (int i = 0; i < p->n; i++)
        if (live >> i & 1 && !(p->row[i].needs & ~live)) out |= (uint64_t)1 << i;
    return out;
}

/* Returns whether p has any text: the required rows and the end can be written, and the number of
 * members can be within its limits. */
static bool live_pick(struct grammar *g, const struct gpick *p) {
    uint64_t n = 0, n_must = 0;
    if (p->n <= GRAM_PICK_BITS) {
        uint64_t must = 0;
        const uint64_t can = usable(g, p, &must);
        if (must & ~can) return false;
        n = (uint64_t)__builtin_popcountll(can);
        n_must = (uint64_t)__builtin_popcountll(must);
    } else {
        for (int i = 0; i < p->n; i++) {
            const bool live = live_part(g, p->row[i].body);
            if (p->row[i].required && !live) return false;
            n += live;
            n_must += p->row[i].required;
        }
    }
    if (p->extra && live_part(g, p->extra)) n = UINT64_MAX;
    return live_part(g, p->close) && n >= p->lo && (p->hi == GRAM_INF || n_must <= p->hi);
}

/* Fills in `usable` and `far` for may_take() (gram_step.c), and drops unlisted members that match
 * nothing. */
static void judge_pick(struct grammar *g, struct gpick *p) {
    uint64_t must;
    if (p->extra && !live_part(g, p->extra)) p->extra = G_NONE;
    int m = 0;
    for (int k = 0; k < p->n_other; k++)
        if (p->extra && live_part(g, p->other[k].rest)) p->other[m++] = p->other[k];
    p->n_other = m;
    if (p->n <= GRAM_PICK_BITS) {
        p->usable = usable(g, p, &must);
        return;
    }
    p->far = xcalloc((size_t)p->n + 1, sizeof *p->far);
    g->bytes += ((size_t)p->n + 1) * sizeof *p->far;
    p->far[p->n].due = (uint32_t)p->n;
    for (int i = p->n - 1; i >= 0; i--) {
        const bool required = p->row[i].required;
        p->far[i] = (struct gpick_far){.usable = p->far[i + 1].usable +
                                                 (live_part(g, p->row[i].body) ? 1 : 0),
                                       .must = p->far[i + 1].must + (required ? 1 : 0),
                                       .due = required ? (uint32_t)i : p->far[i + 1].due};
    }
}

/* Returns whether n has any text, given what is known about its parts. */
static bool live_of(struct grammar *g, gnode n) {
    const struct gnode_data d = *gn(g, n);
    switch ((enum gkind)d.kind) {
    case G_CAT:
        return live_part(g, d.a) && live_part(g, d.b);
    case G_ALT:
        for (uint32_t i = 0; i < d.b; i++)
            if (live_part(g, g->list[d.a + i])) return true;
        return false;
    case G_REP:
        return d.lo == 0 || live_part(g, d.a);
    case G_RULE:
        return g->rule[d.a].live;
    case G_PICK:
        return live_pick(g, &g->pick[d.a]);
    case G_NONE:
    case G_EPS:
    case G_SET:
    case G_AND:
    case G_NOT:
    case G_MOD:
    case G_NAMED: /* created only while an answer advances */
        break;
    }
    return false;
}

/* Returns whether the node matches "", given the facts known about the rules so far. */
static bool is_null_now(const struct grammar *g, gnode n) {
    const struct gnode_data *d = gn(g, n);
    if (d->kind == G_CAT) return gn_null(g, d->a) && gn_null(g, d->b);
    if (d->kind == G_REP) return d->lo == 0 || gn_null(g, d->a);
    if (d->kind == G_RULE) return g->rule[d->a].null;
    for (uint32_t i = 0; d->kind == G_ALT && i < d->b; i++)
        if (gn_null(g, g->list[d->a + i])) return true;
    return false;
}

/* Computes which rules and other irregular nodes have any text, and which match the empty text, as
 * a least fixed point. Returns ERR_DATA if a limit is reached. */
static int find_facts(struct grammar *g, struct err *e) {
    bool changed = true;
    while (changed) {
        changed = false;
        const gnode n_node = g->n_node; /* derivatives are added after these, and are regular */
        g->n_judged = n_node;
        for (gnode i = 0; i < n_node && gram_spend(g, 1); i++) {
            if (gn_regular(g, i)) continue;
            if (gn(g, i)->kind == G_ALT) gram_spend(g, gn(g, i)->b);
            const uint8_t f = g->node[i].flags;
            uint8_t to = f;
            if (!(f & GF_LIVE) && live_of(g, i)) to |= GF_LIVE;
            if (!(f & GF_NULL) && is_null_now(g, i)) to |= GF_NULL;
            changed |= to != f;
            g->node[i].flags = to;
        }
        for (uint32_t r = g->n_rule; r-- > 0 && gram_spend(g, 1);) {
            struct grule *u = &g->rule[r];
            const bool live = live_part(g, u->body), null = gn_null(g, u->body);
            changed |= live != u->live || null != u->null;
            u = &g->rule[r];
            u->live = live;
            u->null = null;
        }
        TRY(grammar_full(g, e));
    }
    return 0;
}

/* Returns whether n can begin with a left-recursive rule, whose expansion would never end. */
static bool left_recursive(struct grammar *g, gnode n, int depth);
/* Returns whether rule r can begin with itself; depth: current depth of nesting. */
static bool rule_left_recursive(struct grammar *g, uint32_t r, int depth) {
    if (g->rule[r].mark == 2) return false;
    if (g->rule[r].mark == 1) return true;
    g->rule[r].mark = 1;
    if (left_recursive(g, g->rule[r].body, depth + 1)) return true;
    g->rule[r].mark = 2;
    return false;
}
static bool left_recursive(struct grammar *g, gnode n, int depth) {
    if (gn_regular(g, n) || !gram_spend(g, 1)) return false;
    if (depth > DEPTH_MAX) {
        fail_too_deep(g);
        return false;
    }
    const struct gnode_data d = *gn(g, n);
    if (d.kind == G_RULE) return rule_left_recursive(g, d.a, depth + 1);
    if (d.kind == G_REP) return left_recursive(g, d.a, depth + 1);
    if (d.kind == G_CAT)
        return left_recursive(g, d.a, depth + 1) ||
               (gn_null(g, d.a) && left_recursive(g, d.b, depth + 1));
    for (uint32_t i = 0; d.kind == G_ALT && i < d.b; i++)
        if (left_recursive(g, g->list[d.a + i], depth + 1)) return true;
    if (d.kind != G_PICK) return false;
    const struct gpick p = g->pick[d.a];
    const gnode more[] = {p.first, p.sep, p.close, p.extra};
    for (size_t i = 0; i < COUNT_OF(more); i++)
        if (left_recursive(g, more[i], depth + 1)) return true;
    for (int i = 0; i < p.n && (gn_null(g, p.first) || gn_null(g, p.sep)); i++)
        if (left_recursive(g, p.row[i].body, depth + 1)) return true;
    return false;
}

/* Fails if a rule is left-recursive. Clears the rules' names, which are only borrowed until
 * here. */
static int no_left_recursion(struct grammar *g, struct err *e) {
    int rc = 0;
    for (uint32_t r = 0; r < g->n_rule && !rc; r++) {
        if (!rule_left_recursive(g, r, 0)) continue;
        const struct grule *x = &g->rule[r];
        const struct show name = show_n(x->name ? x->name : "", x->name ? x->name_len : 0);
        rc = err_set(e, ERR_DATA,
                     "a rule begins with itself (left recursion)%s%s%s: write the repetition with "
                     "'*', as in sum: item (\"+\" item)*",
                     x->name ? ": '" : "", name.s, x->name ? "'" : "");
    }
    for (uint32_t r = 0; r < g->n_rule; r++) g->rule[r].name = NULL;
    TRY(grammar_full(g, e));
    return rc;
}

int grammar_seal(struct grammar *g, gnode root, struct err *e) {
    TRY(grammar_full(g, e));
    g->root = root;
    make_classes(g);
    gram_fit_classes(g);
    g->sealed = true;
    TRY(find_facts(g, e));
    for (uint32_t i = 0; i < g->n_pick; i++) judge_pick(g, &g->pick[i]);
    if (!live_part(g, root)) return err_set(e, ERR_DATA, "%s", GRAM_NO_TEXT);
    TRY(no_left_recursion(g, e));
    gram_know_rules(g);
    TRY(grammar_full(g, e));
    g->cost = &g->own;
    g->own.most = GRAM_CALL_STEPS;
    g->scratch = xcalloc(g->v->longest + 3, sizeof *g->scratch);
    return 0;
}
