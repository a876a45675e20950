// SPDX-License-Identifier: MIT
/* grammar/lang.c - hash-consed language nodes: structurally equal nodes have the same index, so
 * results about a node are cached by its index. Cheap simplifications (Brzozowski's similarity
 * rules and a few others) keep the number of different derivatives small. */
#include "grammar/gram_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"

enum { NODES_MAX = 1 << 20, SETS_MAX = 4096, SET_SLOTS = 2 * SETS_MAX, LOOK_EVERY = 1 << 16 };

/* ---- memory ---- */

void *grammar_grow(struct grammar *g, void *p, uint32_t *cap, uint32_t n, size_t size) {
    if (n < *cap) return p;
    const uint32_t to = *cap ? *cap * 2 : 64;
    g->bytes += (size_t)(to - *cap) * size;
    *cap = to;
    return xreallocarray(p, to, size);
}

/* Sets the grammar's error unless one is already set; returns G_NONE. */
static gnode fail_too_much(struct grammar *g, const char *what) {
    if (!g->full) g->full = what;
    return G_NONE;
}

int grammar_full(const struct grammar *g, struct err *e) {
    if (g->cost->stopped) return err_set(e, ERR_INTR, "interrupted");
    if (!g->full) return 0;
    return err_set(e, ERR_DATA, "the grammar is too large: %s", g->full);
}

bool grammar_is_full(struct grammar *g) {
    if (pthread_mutex_trylock(&g->lock)) return false;
    const bool full = g->full != NULL;
    pthread_mutex_unlock(&g->lock);
    return full;
}

/* ---- cost ---- */

bool gram_spend_more(struct grammar *g) {
    struct ctx_cost *c = g->cost;
    if (g->full) return false;
    if (!c->most) c->most = limit_of(LIM_GRAMMAR_STEPS);
    if (c->spent > c->most) {
        snprintf(g->why, sizeof g->why,
                 g->scratch ? "a token takes more than %llu steps"
                            : "it takes more than %llu steps to compile",
                 (unsigned long long)c->most);
        g->full = g->why;
        return false;
    }
    c->stopped = !g->scratch && ((c->gone && atomic_load(c->gone)) || progress_interrupted());
    if (c->stopped) g->full = "interrupted";
    c->next = c->spent + LOOK_EVERY <= c->most ? c->spent + LOOK_EVERY : c->most + 1;
    return !g->full;
}

/* ---- hash table ---- */

static uint32_t mix_hash(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h ^ h >> 32);
}

/* Returns whether nodes of the kind have a list of operands. */
static bool is_list(uint8_t kind) {
    return kind == G_ALT || kind == G_AND;
}

/* Returns the hash of a node with this list of parts. */
static uint32_t hash_of(const struct gnode_data *d, const gnode *list) {
    uint32_t h = mix_hash(d->kind, d->b);
    if (is_list(d->kind)) {
        for (uint32_t i = 0; i < d->b; i++) h = mix_hash(h, list[i]);
        return h;
    }
    h = mix_hash(h, d->a);
    h = mix_hash(h, (uint64_t)d->lo << 32 | d->hi);
    return mix_hash(h, d->bits);
}

/* Returns whether x is the node d with this list of parts. */
static bool same_node(const struct grammar *g, const struct gnode_data *x,
                      const struct gnode_data *d, const gnode *list) {
    if (x->kind != d->kind || x->b != d->b) return false;
    if (is_list(d->kind)) return memcmp(g->list + x->a, list, d->b * sizeof *list) == 0;
    return x->a == d->a && x->lo == d->lo && x->hi == d->hi && x->bits == d->bits;
}

/* Doubles the hash buckets and inserts the nodes again. */
static void grow_buckets(struct grammar *g) {
    const uint32_t n = g->n_bucket ? g->n_bucket * 2 : 1024;
    g->bytes += (size_t)(n - g->n_bucket) * sizeof *g->bucket;
    free(g->bucket);
    g->bucket = xcalloc(n, sizeof *g->bucket);
    g->n_bucket = n;
    for (gnode i = 0; i < g->n_node; i++) {
        struct gnode_data *x = &g->node[i];
        const uint32_t h = hash_of(x, is_list(x->kind) ? g->list + x->a : NULL) & (n - 1);
        x->chain = g->bucket[h];
        g->bucket[h] = i + 1;
    }
}

/* Returns whether the node matches the empty text. */
static bool null_of(const struct grammar *g, const struct gnode_data *d) {
    const gnode *list = is_list(d->kind) ? g->list + d->a : NULL;
    switch ((enum gkind)d->kind) {
    case G_EPS:
        return true;
    case G_CAT:
        return gn_null(g, d->a) && gn_null(g, d->b);
    case G_ALT:
        for (uint32_t i = 0; i < d->b; i++)
            if (gn_null(g, list[i])) return true;
        return false;
    case G_AND:
        for (uint32_t i = 0; i < d->b; i++)
            if (!gn_null(g, list[i])) return false;
        return true;
    case G_NOT:
        return !gn_null(g, d->a);
    case G_REP:
        return d->lo == 0 || gn_null(g, d->a);
    case G_MOD:
        return d->b == 0;
    case G_RULE:
        return g->rule[d->a].null;
    case G_NONE:
    case G_SET:
    case G_PICK:
    case G_NAMED:
        break;
    }
    return false;
}

/* Returns the flags that a node inherits from its parts. */
static uint8_t kept_flags(const struct grammar *g, const struct gnode_data *d) {
    const uint8_t both = GF_REGULAR | GF_PLAIN;
    uint8_t f = both;
    switch ((enum gkind)d->kind) {
    case G_CAT:
        return (uint8_t)(gn(g, d->a)->flags & gn(g, d->b)->flags & both);
    case G_ALT:
        for (uint32_t i = 0; i < d->b; i++) f &= gn(g, g->list[d->a + i])->flags;
        return f;
    case G_REP:
        return gn(g, d->a)->flags & both;
    case G_AND:
    case G_NOT:
    case G_MOD:
        return GF_REGULAR;
    case G_RULE:
    case G_PICK:
    case G_NAMED:
        return 0;
    case G_NONE:
    case G_EPS:
    case G_SET:
        break;
    }
    return f;
}

/* Returns the node equal to d, creating it if needed. list: parts of a G_ALT or G_AND. */
static gnode intern_node(struct grammar *g, struct gnode_data d, const gnode *list) {
    if (!gram_spend(g, 1 + (is_list(d.kind) ? d.b : 0)) && g->n_node > G_EPS) return G_NONE;
    if (g->n_node >= g->n_bucket) grow_buckets(g);
    const uint32_t h = hash_of(&d, list) & (g->n_bucket - 1);
    for (uint32_t i = g->bucket[h]; i; i = g->node[i - 1].chain)
        if (same_node(g, &g->node[i - 1], &d, list)) return i - 1;
    if (g->n_node >= NODES_MAX) return fail_too_much(g, "more than 1048576 parts");
    if (g->bytes > GRAM_BYTES_MAX) return fail_too_much(g, "more than 64 MiB");
    g->node = grammar_grow(g, g->node, &g->cap_node, g->n_node, sizeof *g->node);
    if (is_list(d.kind)) {
        d.a = g->n_list;
        for (uint32_t i = 0; i < d.b; i++) {
            g->list = grammar_grow(g, g->list, &g->cap_list, g->n_list, sizeof *g->list);
            g->list[g->n_list++] = list[i];
        }
    }
    d.flags = (uint8_t)(kept_flags(g, &d) | (null_of(g, &d) ? GF_NULL : 0));
    d.chain = g->bucket[h];
    g->node[g->n_node] = d;
    g->bucket[h] = ++g->n_node;
    return g->n_node - 1;
}

struct grammar *grammar_new(const struct gram_vocab *v) {
    struct grammar *g = xcalloc(1, sizeof *g);
    pthread_mutex_init(&g->lock, NULL);
    g->v = v;
    g->cost = ctx_cost() ? ctx_cost() : &g->own;
    (void)intern_node(g, (struct gnode_data){.kind = G_NONE}, NULL);
    (void)intern_node(g, (struct gnode_data){.kind = G_EPS}, NULL);
    g->any = gn_rep(g, gn_bytes(g, 0, 255), 0, GRAM_INF);
    return g;
}

void grammar_free(struct grammar *g) {
    if (!g) return;
    gram_masks_free(g);
    for (uint32_t i = 0; i < g->cap_row; i++) free(g->row[i]);
    for (uint32_t i = 0; i < g->n_pick; i++) {
        free(g->pick[i].row);
        free(g->pick[i].far);
        free(g->pick[i].other);
    }
    free(g->row);
    free(g->seen);
    free(g->least);
    free(g->way);
    free(g->spelled);
    free(g->node);
    free(g->bucket);
    free(g->list);
    free(g->set);
    free(g->set_slot);
    free(g->rule);
    free(g->pick);
    free(g->tail);
    free(g->tail_bucket);
    free(g->item);
    free(g->scratch);
    free(g->high_cls);
    free(g->plain);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

/* ---- bytes and strings ---- */

gnode gn_set(struct grammar *g, const struct gset *s) {
    static const struct gset none;
    if (memcmp(s, &none, sizeof none) == 0) return G_NONE;
    if (!g->set_slot) g->set_slot = xcalloc(SET_SLOTS, sizeof *g->set_slot);
    uint32_t h = 0;
    for (int w = 0; w < 4; w++) h = mix_hash(h, s->w[w]);
    uint16_t *slot = &g->set_slot[h %= SET_SLOTS];
    while (*slot && memcmp(&g->set[*slot - 1], s, sizeof *s) != 0)
        slot = &g->set_slot[h = (h + 1) % SET_SLOTS];
    if (!*slot) {
        if (g->n_set == SETS_MAX) return fail_too_much(g, "more than 4096 sets of bytes");
        g->set = grammar_grow(g, g->set, &g->cap_set, g->n_set, sizeof *g->set);
        g->set[g->n_set++] = *s;
        *slot = (uint16_t)g->n_set;
    }
    const uint32_t i = *slot - 1u;
    return intern_node(g, (struct gnode_data){.kind = G_SET, .a = i}, NULL);
}

gnode gn_bytes(struct grammar *g, int from, int to) {
    struct gset s = {{0}};
    for (int i = from; i <= to; i++) s.w[i / 64] |= (uint64_t)1 << i % 64;
    return gn_set(g, &s);
}

gnode gn_text(struct grammar *g, const char *s, size_t n) {
    gnode out = G_EPS;
    while (n-- > 0) out = gn_cat(g, gn_bytes(g, (uint8_t)s[n], (uint8_t)s[n]), out);
    return out;
}

gnode gn_str(struct grammar *g, const char *s) {
    return gn_text(g, s, strlen(s));
}

/* ---- concatenation ---- */

gnode gn_cat(struct grammar *g, gnode a, gnode b) {
    gnode own[64], *head = own;
    uint32_t n = 0, cap = COUNT_OF(own);
    if (a == G_NONE || b == G_NONE) return G_NONE;
    if (a == G_EPS) return b;
    if (b == G_EPS) return a;
    for (; gn(g, a)->kind == G_CAT; a = gn(g, a)->b) {
        if (n == cap) {
            gnode *v = xcalloc(cap *= 2, sizeof *v);
            memcpy(v, head, n * sizeof *v);
            if (head != own) free(head);
            head = v;
        }
        head[n++] = gn(g, a)->a;
    }
    b = intern_node(g, (struct gnode_data){.kind = G_CAT, .a = a, .b = b}, NULL);
    while (n-- > 0)
        b = intern_node(g, (struct gnode_data){.kind = G_CAT, .a = head[n], .b = b}, NULL);
    if (head != own) free(head);
    return b;
}

gnode gn_cats(struct grammar *g, const gnode *v, size_t n) {
    gnode out = G_EPS;
    while (n-- > 0) out = gn_cat(g, v[n], out);
    return out;
}

gnode gn_cat3(struct grammar *g, gnode a, gnode b, gnode c) {
    return gn_cat(g, a, gn_cat(g, b, c));
}

/* ---- alternatives ---- */

static int by_index(const void *a, const void *b) {
    const gnode x = *(const gnode *)a, y = *(const gnode *)b;
    return (x > y) - (x < y);
}

struct nodes {
    gnode *v;
    uint32_t n, cap;
};
static void push_node(struct nodes *s, gnode n) {
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 16;
        s->v = xreallocarray(s->v, s->cap, sizeof *s->v);
    }
    s->v[s->n++] = n;
}

/* Adds the n nodes v to out, sorted and without duplicates; nested lists of the same kind are
 * replaced by their members. */
static void flatten(struct grammar *g, uint8_t kind, const gnode *v, size_t n, struct nodes *out) {
    for (size_t i = 0; i < n; i++) {
        const struct gnode_data *d = gn(g, v[i]);
        if (d->kind == kind)
            for (uint32_t k = 0; k < d->b; k++) push_node(out, g->list[d->a + k]);
        else
            push_node(out, v[i]);
    }
    if (out->n > 1) qsort(out->v, out->n, sizeof *out->v, by_index);
    uint32_t m = 0;
    for (uint32_t i = 0; i < out->n; i++)
        if (m == 0 || out->v[m - 1] != out->v[i]) out->v[m++] = out->v[i];
    out->n = m;
}

/* Merges sets with the same continuation: {a}x | {b}x = {ab}x. */
static void join_sets(struct grammar *g, struct nodes *s) {
    gram_spend(g, (uint64_t)s->n * s->n / 2);
    for (uint32_t i = 0; i < s->n; i++) {
        struct gset u = {{0}};
        int n_joined = 0;
        const struct gnode_data *d = gn(g, s->v[i]);
        const bool cat = d->kind == G_CAT;
        const gnode rest = cat ? d->b : G_EPS, head = cat ? d->a : s->v[i];
        if (gn(g, head)->kind != G_SET) continue;
        for (uint32_t k = i; k < s->n; k++) {
            const struct gnode_data *x = gn(g, s->v[k]);
            const gnode h = cat && x->kind == G_CAT && x->b == rest ? x->a : cat ? 0 : s->v[k];
            if (!h || gn(g, h)->kind != G_SET) continue;
            for (int w = 0; w < 4; w++) u.w[w] |= g->set[gn(g, h)->a].w[w];
            n_joined++;
            if (k > i) s->v[k] = G_NONE;
        }
        if (n_joined > 1) s->v[i] = gn_cat(g, gn_set(g, &u), rest);
        uint32_t m = i + 1;
        for (uint32_t k = i + 1; k < s->n; k++)
            if (s->v[k] != G_NONE) s->v[m++] = s->v[k];
        s->n = m;
    }
    if (s->n > 1) qsort(s->v, s->n, sizeof *s->v, by_index);
}

/* Drops repetitions that another alternative contains: of x{2,3}y and x{0,5}y, only the latter is
 * kept. */
static void drop_narrow(struct grammar *g, struct nodes *s) {
    uint32_t m = 0;
    gram_spend(g, s->n);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct gnode_data *d = gn(g, s->v[i]);
        const gnode rest = d->kind == G_CAT ? d->b : (gnode)G_EPS;
        const struct gnode_data *r = d->kind == G_CAT ? gn(g, d->a) : d;
        bool narrow = false;
        if (r->kind == G_REP) gram_spend(g, s->n);
        for (uint32_t k = 0; k < s->n && r->kind == G_REP && !narrow; k++) {
            const struct gnode_data *x = gn(g, s->v[k]);
            const struct gnode_data *q = x->kind == G_CAT ? gn(g, x->a) : x;
            narrow = k != i && q->kind == G_REP && q->a == r->a && q->lo <= r->lo &&
                     q->hi >= r->hi && (x->kind == G_CAT ? x->b : (gnode)G_EPS) == rest;
        }
        if (!narrow) s->v[m++] = s->v[i];
    }
    s->n = m;
}

enum { JOIN_MAX = 256, FACTOR_DEPTH = 100 }; /* JOIN_MAX: longest list that is compared pairwise */

struct headed { /* an alternative split into head and rest */
    gnode head, rest;
    uint32_t at; /* index in the list */
};
static int by_head(const void *a, const void *b) {
    const struct headed *x = a, *y = b;
    return x->head != y->head ? (x->head > y->head) - (x->head < y->head)
                              : (x->at > y->at) - (x->at < y->at);
}

/* Factors out the common prefix of the n alternatives v, which have the same head. */
static gnode factored(struct grammar *g, const struct headed *v, uint32_t n) {
    struct nodes same = {0}, rest = {0};
    push_node(&same, v[0].head);
    for (uint32_t i = 0; i < n; i++) push_node(&rest, v[i].rest);
    for (bool alike = true; alike;) {
        const struct gnode_data first = *gn(g, rest.v[0]);
        alike = first.kind == G_CAT && gn_regular(g, rest.v[0]) && gram_spend(g, n);
        for (uint32_t i = 1; i < n && alike; i++)
            alike = gn(g, rest.v[i])->kind == G_CAT && gn(g, rest.v[i])->a == first.a;
        for (uint32_t i = 0; i < n && alike; i++) rest.v[i] = gn(g, rest.v[i])->b;
        if (alike) push_node(&same, first.a);
    }
    gnode out = gn_alts(g, rest.v, n);
    while (same.n-- > 0) out = gn_cat(g, same.v[same.n], out);
    free(same.v);
    free(rest.v);
    return out;
}

/* Factors out common heads of alternatives: ax | ay = a(x|y). */
static void factor(struct grammar *g, struct nodes *s) {
    struct headed *v = xcalloc((size_t)s->n + 1, sizeof *v);
    uint32_t n = 0, m = 0, end;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct gnode_data *d = gn(g, s->v[i]);
        if (d->kind == G_CAT && gn_regular(g, s->v[i])) v[n++] = (struct headed){d->a, d->b, i};
    }
    if (n > 1) qsort(v, n, sizeof *v, by_head);
    for (uint32_t i = 0; i < n; i = end) {
        for (end = i + 1; end < n && v[end].head == v[i].head; end++) s->v[v[end].at] = G_NONE;
        if (end > i + 1) s->v[v[i].at] = factored(g, v + i, end - i);
    }
    for (uint32_t i = 0; i < s->n; i++)
        if (s->v[i] != G_NONE) s->v[m++] = s->v[i];
    s->n = m;
    free(v);
    if (s->n > 1) qsort(s->v, s->n, sizeof *s->v, by_index);
}

gnode gn_alts(struct grammar *g, const gnode *v, size_t n) {
    struct nodes s = {0};
    gnode out;
    flatten(g, G_ALT, v, n, &s);
    uint32_t from = s.n && s.v[0] == G_NONE;
    for (uint32_t i = from; i < s.n; i++) s.v[i - from] = s.v[i];
    s.n -= from;
    for (uint32_t i = 0; i < s.n && g->any; i++)
        if (s.v[i] == g->any) {
            s.v[0] = g->any;
            s.n = 1;
        }
    if (s.n > 1 && g->depth < FACTOR_DEPTH) {
        g->depth++;
        factor(g, &s);
        g->depth--;
    }
    if (s.n > 1 && s.n <= JOIN_MAX) drop_narrow(g, &s);
    if (!g->sealed && s.n <= JOIN_MAX) join_sets(g, &s);
    if (s.n == 0)
        out = G_NONE;
    else if (s.n == 1)
        out = s.v[0];
    else
        out = intern_node(g, (struct gnode_data){.kind = G_ALT, .b = s.n}, s.v);
    free(s.v);
    return out;
}

gnode gn_alt(struct grammar *g, gnode a, gnode b) {
    return gn_alts(g, (const gnode[]){a, b}, 2);
}

gnode gn_ands(struct grammar *g, const gnode *v, size_t n) {
    struct nodes s = {0};
    gnode out;
    flatten(g, G_AND, v, n, &s);
    uint32_t m = 0;
    for (uint32_t i = 0; i < s.n; i++)
        if (s.v[i] != g->any) s.v[m++] = s.v[i];
    s.n = m;
    if (s.n == 0)
        out = g->any;
    else if (s.n == 1 || s.v[0] == G_NONE)
        out = s.v[0];
    else if (s.v[0] == G_EPS) {
        out = G_EPS;
        for (uint32_t i = 0; i < s.n; i++)
            if (!gn_null(g, s.v[i])) out = G_NONE;
    } else
        out = intern_node(g, (struct gnode_data){.kind = G_AND, .b = s.n}, s.v);
    free(s.v);
    return out;
}

gnode gn_and(struct grammar *g, gnode a, gnode b) {
    return gn_ands(g, (const gnode[]){a, b}, 2);
}

gnode gn_not(struct grammar *g, gnode a) {
    if (a == G_NONE) return g->any;
    if (a == g->any) return G_NONE;
    if (gn(g, a)->kind == G_NOT) return gn(g, a)->a;
    return intern_node(g, (struct gnode_data){.kind = G_NOT, .a = a}, NULL);
}

/* ---- repetition ---- */

gnode gn_rep(struct grammar *g, gnode a, uint32_t lo, uint32_t hi) {
    if (hi == 0 || a == G_EPS) return G_EPS;
    if (a == G_NONE) return lo == 0 ? G_EPS : G_NONE;
    if (lo == 1 && hi == 1) return a;
    if (gn_null(g, a) && gn_regular(g, a))
        lo = 0; /* missing repetitions can match the empty text */
    const struct gnode_data *d = gn(g, a);
    if (d->kind == G_REP && d->lo == 0 && d->hi == GRAM_INF && lo <= 1) return a;
    return intern_node(g, (struct gnode_data){.kind = G_REP, .a = a, .lo = lo, .hi = hi}, NULL);
}

gnode gn_opt(struct grammar *g, gnode a) {
    return gn_alt(g, G_EPS, a);
}

gnode gn_mod(struct grammar *g, uint32_t by, uint32_t rest) {
    g->has_mod = true;
    return intern_node(g, (struct gnode_data){.kind = G_MOD, .a = by, .b = rest}, NULL);
}

/* ---- irregular nodes ---- */

uint32_t grammar_rule(struct grammar *g) {
    g->rule = grammar_grow(g, g->rule, &g->cap_rule, g->n_rule, sizeof *g->rule);
    g->rule[g->n_rule] = (struct grule){0};
    return g->n_rule++;
}

gnode gn_rule(struct grammar *g, uint32_t rule) {
    return intern_node(g, (struct gnode_data){.kind = G_RULE, .a = rule}, NULL);
}

gnode gn_as_rule(struct grammar *g, gnode body) {
    if (body == G_NONE) return G_NONE; /* a rule that is still being built has no body */
    if (gn(g, body)->kind == G_RULE) return body;
    for (uint32_t i = 0; i < g->n_rule && i < 64; i++)
        if (g->rule[i].body == body) return gn_rule(g, i);
    const uint32_t r = grammar_rule(g);
    g->rule[r].body = body;
    return gn_rule(g, r);
}

uint32_t grammar_pick(struct grammar *g, const struct gpick *p) {
    g->pick = grammar_grow(g, g->pick, &g->cap_pick, g->n_pick, sizeof *g->pick);
    g->pick[g->n_pick] = *p;
    struct gpick *q = &g->pick[g->n_pick];
    q->ordered = p->ordered || p->n > GRAM_PICK_BITS;
    q->required = 0;
    for (int i = 0; i < p->n && i < GRAM_PICK_BITS; i++)
        if (p->row[i].required) q->required |= (uint64_t)1 << i;
    g->bytes += (size_t)p->n * sizeof *p->row;
    return g->n_pick++;
}

gnode gn_members(struct grammar *g, struct gnode_data d) {
    const struct gpick *p = &g->pick[d.a];
    const uint32_t most = p->hi == GRAM_INF ? (p->lo ? p->lo : 1) : p->hi;
    if (d.lo > most) d.lo = most;
    return intern_node(g, d, NULL);
}

gnode gn_pick(struct grammar *g, uint32_t pick, uint32_t count, uint64_t bits) {
    return gn_members(g, (struct gnode_data){.kind = G_PICK, .a = pick, .bits = bits, .lo = count});
}
