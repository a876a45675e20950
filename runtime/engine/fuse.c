// SPDX-License-Identifier: MIT
/* runtime/engine/fuse.c - matcher for the patterns of fusions.def. A pattern lists consecutive
 * operations; its rule in this file checks their registers and what the executor supports. Nothing
 * is run here. */
#include "runtime/engine/fuse.h"

#include <string.h>

struct rule_for {
    const struct graph *g;
    const struct gr_node *end; /* end of the nodes that may be matched */
    const struct target *t;
};
/* Returns the number of nodes of m that the fusion covers, or 0 if it does not apply. Sets the
 * parts of m that it does not cover to NULL. */
typedef int (*rule_fn)(const struct rule_for *r, struct match *m);

#define FUSION(id, name, what, classes, parts)                                                     \
    static int rule_##name(const struct rule_for *r, struct match *m);
#include "runtime/engine/fusions.def"
#undef FUSION

enum { ONE = 1 << BATCH_ONE, FEW = 1 << BATCH_FEW, EVERY_BATCH = ONE | FEW | 1 << BATCH_MANY };
enum how { END, MUST, MAY };
static const struct pattern {
    const char *name, *what;
    unsigned classes;
    rule_fn rule;
    struct {
        uint64_t ops;
        enum how how;
    } part[FUSE_PARTS + 1];
} patterns[FUSE_COUNT] = {
#define OF(op) (UINT64_C(1) << OP_##op)
#define P(name, ops, how) {ops, how},
#define FUSION(id, name, what, classes, parts)                                                     \
    [FUSE_##id] = {#name, what, classes, rule_##name, {parts}},
#include "runtime/engine/fusions.def"
#undef FUSION
#undef P
#undef OF
};
_Static_assert(OP_COUNT <= 64, "an operation is a bit of a pattern's part");

const char *fuse_name(enum fusion f) {
    return f < 0 || f >= FUSE_COUNT ? "" : patterns[f].name;
}

/* Fills in the parts of m from the nodes starting at n. Returns false if a required part is
 * missing. */
static bool find_parts(const struct pattern *p, const struct gr_node *n, const struct gr_node *end,
                       struct match *m) {
    const struct gr_node *at = n;
    memset(m, 0, sizeof *m);
    for (int k = 0; p->part[k].how; k++) {
        if (at < end && (p->part[k].ops >> at->op & 1))
            m->part[k] = at++;
        else if (p->part[k].how == MUST)
            return false;
    }
    m->n_nodes = (int)(at - n);
    return true;
}

enum fusion fuse_at(const struct graph *g, int at, int end, const struct target *t,
                    struct match *m) {
    const struct rule_for r = {g, g->node + end, t};
    for (int f = 0; f < FUSE_COUNT && !t->sees_all; f++) {
        const struct pattern *p = &patterns[f];
        if (!(t->fusions >> f & 1) || !(p->classes >> t->batch & 1)) continue;
        if (!find_parts(p, g->node + at, r.end, m)) continue;
        m->n_nodes = p->rule(&r, m);
        if (m->n_nodes) return (enum fusion)f;
    }
    *m = (struct match){.n_nodes = 1};
    return FUSE_NONE;
}

bool fuse_begins(enum gr_op op, const struct target *t) {
    for (int f = 0; f < FUSE_COUNT && !t->sees_all; f++) {
        const struct pattern *p = &patterns[f];
        if (!(t->fusions >> f & 1) || !(p->classes >> t->batch & 1)) continue;
        /* Most products run alone: only products of few rows can start a launch of several. */
        if (op == OP_MATMUL && (f != FUSE_PRODUCTS || !t->few)) continue;
        int k = 0;
        while (p->part[k].how == MAY) k++;
        if (p->part[k].ops >> op & 1) return true;
    }
    return false;
}

/* ---- predicates of the rules ---- */

/* Returns the kernels (WAY_...) available for the product's matrix. */
static unsigned way_of(const struct rule_for *r, const struct gr_node *product) {
    return r->t->way(r->t->ud, product->product.matrix);
}
/* Returns whether the kernels for few rows support product n. */
static bool is_quick(const struct rule_for *r, const struct gr_node *n) {
    return n < r->end && n->op == OP_MATMUL && r->t->few && way_of(r, n) && n->dst != n->src[0];
}

/* Returns whether nodes n, n + 1 and n + 2 are gate, up and activation of one input. */
static bool is_glu(const struct graph *g, const struct gr_node *n, const struct gr_node *end) {
    if (end - n < 3 || n[0].op != OP_MATMUL || n[1].op != OP_MATMUL) return false;
    if (n[2].op != OP_SWIGLU && (n[2].op != OP_GEGLU || n[2].pick.offset)) return false;
    if (n[0].src[0] != n[1].src[0] || n[2].src[0] != n[0].dst || n[2].src[1] != n[1].dst)
        return false;
    return g->reg_width[n[2].dst] == g->reg_width[n[2].src[1]];
}
/* Returns whether gate and up have kernels for few rows and can run as one product. */
static bool is_quick_glu(const struct rule_for *r, const struct gr_node *n) {
    return is_glu(r->g, n, r->end) && way_of(r, &n[0]) && way_of(r, &n[1]) &&
           r->t->joins(r->t->ud, n[0].product.matrix, n[1].product.matrix);
}

/* Returns whether a equals b, without the compiler's warning about comparing floats. */
static bool same_number(double a, double b) {
    return !(a < b) && !(a > b);
}
/* Returns whether both rotate by the same angles. */
static bool same_angles(const struct gr_rope *a, const struct gr_rope *b) {
    return a->n_rot == b->n_rot && a->adjacent == b->adjacent && a->divisors == b->divisors &&
           a->far == b->far && a->no_yarn == b->no_yarn && same_number(a->base, b->base) &&
           same_number(a->factor, b->factor);
}

/* ---- rules ---- */

/* Matches a sum and its RMS norm; returns the number of nodes, 0 if they cannot be fused. */
static int rule_add_rms(const struct rule_for *r, struct match *m) {
    const struct gr_node *sum = m->add_rms.sum, *norm = m->add_rms.norm;
    (void)r;
    return norm->src[0] == sum->dst && norm->dst != sum->dst ? 2 : 0;
}

/* Matches a gated sum and its RMS norm; returns the number of nodes, 0 if they cannot be fused. */
static int rule_gate_add_rms(const struct rule_for *r, struct match *m) {
    const struct gr_node *gate = m->gate_add_rms.gate, *sum = m->gate_add_rms.sum,
                         *norm = m->gate_add_rms.norm;
    (void)r;
    return sum->src[1] == gate->dst && sum->dst == sum->src[0] && norm->src[0] == sum->dst &&
                   norm->norm.weight != GR_NONE
               ? 3
               : 0;
}

/* Matches gate, up and activation; returns the number of nodes, 0 if they cannot be fused. */
static int rule_glu(const struct rule_for *r, struct match *m) {
    const struct gr_node *gate = m->glu.gate, *up = m->glu.up;
    if (!is_glu(r->g, gate, r->end)) return 0;
    return r->t->exact || r->t->joins(r->t->ud, gate->product.matrix, up->product.matrix) ? 3 : 0;
}

/* Returns whether both queries and keys have norms, in place and with the same epsilon, or neither
 * has one. */
static bool qkv_norms(const struct match *m) {
    const struct gr_node *q = m->qkv.q_norm, *k = m->qkv.k_norm;
    if (!q && !k) return true;
    return q && k && q->dst == q->src[0] && k->dst == k->src[0] && q->dst == m->qkv.q_rope->dst &&
           k->dst == m->qkv.k_rope->dst && same_number((double)q->norm.eps, (double)k->norm.eps);
}
/* Returns whether the fusion can include the products of queries, keys and values. If queries have
 * gates, both must come from one product, which is then split. */
static bool qkv_products(const struct match *m) {
    const struct gr_node *q = m->qkv.q, *split = m->qkv.split, *k = m->qkv.k, *v = m->qkv.v;
    if (!split) return !q && !k && !v;
    if (!k || !v || (q && split->src[0] != q->dst)) return false;
    /* The gates are read later, so these products must not overwrite them. */
    return k->dst != split->src[0] && v->dst != split->src[0] &&
           split->dst == m->qkv.attn->src[0] && m->qkv.gate;
}
/* Matches products up to the ropes before attention; returns the number of nodes, 0 if they cannot
 * be fused. */
static int rule_qkv(const struct rule_for *r, struct match *m) {
    const struct gr_node *attn = m->qkv.attn, *q = m->qkv.q_rope, *k = m->qkv.k_rope;
    (void)r;
    if (m->qkv.gate && m->qkv.gate->dst != attn->dst) {
        m->qkv.gate = NULL;
        m->n_nodes--;
    }
    if (attn->attn.latent || attn->src[1] == GR_NONE || q->dst != attn->src[0] ||
        k->dst != attn->src[1])
        return 0;
    if (!same_angles(&q->rope, &k->rope) || q->rope.head_dim != attn->attn.head_dim) return 0;
    if (!qkv_norms(m) || !qkv_products(m)) return 0;
    return m->qkv.split && m->qkv.gate->src[0] != m->qkv.split->dst2 ? 0 : m->n_nodes;
}

/* Matches attention and its gate; returns the number of nodes, 0 if they cannot be fused. */
static int rule_attn_gate(const struct rule_for *r, struct match *m) {
    (void)r;
    const struct gr_node *attn = m->attn_gate.attn;
    return m->attn_gate.gate->dst == attn->dst && !attn->attn.latent ? 2 : 0;
}

/* Returns whether a shared expert follows the routed ones and its gated output is added to
 * theirs. */
static bool has_shared(const struct rule_for *r, const struct match *m) {
    const struct gr_node *n = m->moe.moe, *down = m->moe.s_down, *gate = m->moe.gate;
    return r->t->many && m->moe.s_gate && down && gate && is_quick_glu(r, m->moe.s_gate) &&
           m->moe.s_gate->src[0] == n->src[0] && down->src[0] == m->moe.s_act->dst &&
           way_of(r, down) && gate->dst == n->dst && gate->src[0] == down->dst &&
           m->moe.s_act->dst != n->src[0] && down->dst != n->dst;
}
/* Returns whether the quick kernels can run all products of the experts. */
static bool quick_experts(const struct rule_for *r, const struct gr_node *n) {
    const struct target *t = r->t;
    const struct gr_moe *e = &n->moe;
    return (t->way(t->ud, e->router) & WAY_FLOATS) && t->joins(t->ud, e->gate, e->up) &&
           t->way(t->ud, e->gate) && t->way(t->ud, e->down) &&
           (e->joined || t->way(t->ud, e->up)) && n->dst != n->src[0];
}
/* Matches an expert layer with or without a shared expert; returns the number of nodes, 0 if they
 * cannot be fused. */
static int rule_moe(const struct rule_for *r, struct match *m) {
    const struct gr_node *n = m->moe.moe;
    if (!r->t->few || r->t->sees_routes || !gr_moe_is_plain(&n->moe)) return 0;
    if (!quick_experts(r, n)) return 0;
    if (has_shared(r, m)) return 5; /* the gate becomes part of the residual's fusion */
    m->moe.s_gate = m->moe.s_up = m->moe.s_act = m->moe.s_down = NULL;
    return 1;
}

/* Returns whether n + k is one more product of the same input, which can join the k products before
 * it. */
static bool goes_along(const struct rule_for *r, const struct gr_node *n, int k) {
    return is_quick(r, n + k) && n[k].src[0] == n->src[0] && r->t->many &&
           /* Gate and up of a feed-forward are a separate launch. */
           !is_glu(r->g, n + k, r->end);
}
/* Matches products of the same input; returns the number of products, 0 if they cannot be fused. */
static int rule_products(const struct rule_for *r, struct match *m) {
    const struct gr_node *n = m->products.a;
    /* A single product of several f32 rows has its own kernel. */
    bool any = r->t->batch == BATCH_ONE;
    if (!is_quick(r, n)) return 0;
    int k = 0;
    while (k < FUSE_MAX_PRODUCTS && m->part[k] && (k == 0 || goes_along(r, n, k))) {
        any |= (way_of(r, n + k) & WAY_BYTES) != 0;
        for (int i = 0; i < k; i++)
            if (n[i].dst == n[k].dst) return 0;
        if (k && n[k].dst == n->src[0]) break;
        k++;
    }
    if (!any) return 0;
    for (int i = k; i < FUSE_MAX_PRODUCTS; i++) m->part[i] = NULL;
    return k;
}

/* Matches the nodes from convolution to norm; returns the number of nodes, 0 if they cannot be
 * fused. */
static int rule_delta(const struct rule_for *r, struct match *m) {
    const struct gr_node *conv = m->delta.conv, *delta = m->delta.delta, *norm = m->delta.norm;
    (void)r;
    return conv->conv.bias == GR_NONE && delta->src[0] == conv->dst && norm->src[0] == delta->dst &&
                   norm->dst == delta->dst && norm->norm.head_dim == delta->delta.v_dim &&
                   delta->delta.n_v_heads >= delta->delta.n_k_heads
               ? 3
               : 0;
}
