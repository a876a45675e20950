// SPDX-License-Identifier: MIT
/* models/graph.c - construction of a forward graph: lists of nodes, weights and registers.
 * Independent of architectures and of how operations are computed. */
#include "models/graph.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "models/arch.h"

void graph_init(struct graph *g) {
    memset(g, 0, sizeof *g);
    g->hidden_in = g->hidden_out = g->residual = g->output = g->head_bias = GR_NONE;
    for (size_t i = 0; i < sizeof g->hidden_nodes / sizeof *g->hidden_nodes; i++)
        g->hidden_nodes[i] = GR_NONE;
}

static void facts_release(struct graph_facts *f) {
    free(f->use);
    free(f->kv);
    free(f->rec);
    for (int op = 0; op < OP_COUNT; op++) free(f->of_op[op]);
    memset(f, 0, sizeof *f);
}

void graph_release(struct graph *g) {
    free(g->node);
    free(g->weight);
    free(g->reg_width);
    facts_release(&g->facts);
    graph_init(g);
}

/* Grows the array p for one more item of `size` bytes if it is full, and returns it. */
static void *grow(void *p, int n, int *cap, size_t size) {
    if (n < *cap) return p;
    *cap = *cap ? 2 * *cap : 64;
    return xreallocarray(p, (size_t)*cap, size);
}

gr_reg graph_reg(struct graph *g, int64_t width) {
    g->reg_width = grow(g->reg_width, g->n_regs, &g->cap_regs, sizeof *g->reg_width);
    g->reg_width[g->n_regs] = width;
    return g->n_regs++;
}

gr_w graph_weight(struct graph *g, const char *fmt, int layer, int64_t ne0, int64_t ne1,
                  int64_t ne2) {
    g->weight = grow(g->weight, g->n_weights, &g->cap_weights, sizeof *g->weight);
    struct gr_weight *w = &g->weight[g->n_weights];
    *w = (struct gr_weight){.ne = {ne0, ne1, ne2, 1}, .optional_of = GR_NONE};
    /* Names come from our own tables, whose lengths tests check; a truncated name would not be
     * found. */
    (void)arch_name(w->name, sizeof w->name, fmt, strlen(fmt), layer, 0);
    return g->n_weights++;
}

/* Returns a pointer to member k among the weights of n. */
static gr_w *weight_at(struct gr_node *n, int k) {
    return (gr_w *)(void *)((char *)n + gr_ops[n->op].w[k].at);
}
gr_w gr_node_weight(const struct gr_node *n, int k) {
    return *(const gr_w *)(const void *)((const char *)n + gr_ops[n->op].w[k].at);
}

bool gr_moe_is_plain(const struct gr_moe *m) {
    const struct gr_choice *c = &m->choice;
    const bool usual = c->score == GR_SOFTMAX && !c->keep && !c->groups && !(c->scale > 0);
    const bool biased = m->prefer != GR_NONE || m->router_bias != GR_NONE;
    return usual && !biased && !m->relu2 && !m->scales_input && !(m->limit > 0) &&
           m->gate_bias == GR_NONE && m->up_bias == GR_NONE && m->down_bias == GR_NONE;
}

struct gr_node *graph_node(struct graph *g, enum gr_op op, int layer) {
    g->node = grow(g->node, g->n_nodes, &g->cap_nodes, sizeof *g->node);
    struct gr_node *n = &g->node[g->n_nodes++];
    memset(n, 0, sizeof *n); /* all members of the union */
    n->op = op;
    n->layer = layer;
    n->selects = g->selecting;
    n->dst = n->dst2 = n->slot = GR_NONE;
    for (int k = 0; k < GR_SOURCES; k++) n->src[k] = GR_NONE;
    for (int k = 0; k < GR_WEIGHTS && gr_ops[op].w[k].role; k++) *weight_at(n, k) = GR_NONE;
    return n;
}

const struct gr_op_info gr_ops[OP_COUNT] = {
#define W(member, role)                                                                            \
    { #member, offsetof(struct gr_node, member), USE_##role }
#define NO_WEIGHTS                                                                                 \
    { NULL, 0, USE_NONE }
#define OP(id, name, flags, state, ...) [OP_##id] = {#name, flags, STATE_##state, {__VA_ARGS__}},
#include "models/ops.def"
#undef OP
#undef NO_WEIGHTS
#undef W
};

// clang-format off
const struct gr_role_info gr_roles[USE_COUNT] = {
    /*               matrix product observed expert */
    [USE_ROWS]     = {true,  false, false, false},
    [USE_MATRIX]   = {true,  true,  true,  false},
    [USE_HEADS]    = {true,  false, true,  false},
    [USE_DOT]      = {false, false, true,  false},
    [USE_ROUTER]   = {true,  false, true,  false},
    [USE_EXP_GATE] = {true,  true,  true,  true},
    [USE_EXP_UP]   = {true,  true,  true,  true},
    [USE_EXP_DOWN] = {true,  true,  true,  true},
};
// clang-format on

const char *gr_op_name(enum gr_op op) {
    return (unsigned)op < OP_COUNT ? gr_ops[op].name : "?";
}

/* Records the shape of the state that a node keeps between passes, by slot. */
static void note_state(struct graph *g, const struct gr_node *n, int i) {
    struct graph_facts *f = &g->facts;
    switch (gr_ops[n->op].state) {
    case STATE_NONE:
        return;
    case STATE_KV: /* a layer that only reads a slot has no keys of its own */
        if (n->op == OP_INDEX)
            f->kv[n->slot] = (struct gr_kv){.node = i,
                                            .layer = n->layer,
                                            .n_heads = 1,
                                            .k_dim = n->index.head_dim,
                                            .top = n->index.top};
        else if (n->src[1] != GR_NONE)
            f->kv[n->slot] = (struct gr_kv){.node = i,
                                            .layer = n->layer,
                                            .n_heads = n->attn.n_kv_heads,
                                            .k_dim = n->attn.head_dim - n->attn.latent,
                                            .v_dim = gr_attn_values(&n->attn),
                                            .window = n->attn.window};
        return;
    case STATE_CONV: {
        struct gr_rec *r = &f->rec[n->slot];
        const int64_t *ne = g->weight[n->conv.weight].ne;
        r->layer = n->layer;
        r->conv_width = ne[0];
        r->n_channels = g->reg_width[n->dst];
        r->n_conv = (ne[0] - 1) * r->n_channels;
        return;
    }
    case STATE_SCAN:
        f->rec[n->slot].layer = n->layer;
        f->rec[n->slot].n_scan = n->delta.n_v_heads * n->delta.v_dim * n->delta.k_dim;
        return;
    }
}

void graph_finish(struct graph *g) {
    struct graph_facts *f = &g->facts;
    facts_release(f);
    f->use = xcalloc((size_t)g->n_nodes * GR_WEIGHTS + 1, sizeof *f->use);
    f->kv = xcalloc((size_t)g->n_attn_slots + 1, sizeof *f->kv);
    f->rec = xcalloc((size_t)g->n_rec_slots + 1, sizeof *f->rec);
    for (int i = 0; i < g->n_nodes; i++) {
        const struct gr_node *n = &g->node[i];
        int **list = &f->of_op[n->op], *count = &f->n_of_op[n->op];
        if ((*count & (*count - 1)) == 0) /* capacity is a power of two: full */
            *list = xreallocarray(*list, *count ? 2 * (size_t)*count : 1, sizeof **list);
        (*list)[(*count)++] = i;
        const struct gr_op_weight *w = gr_ops[n->op].w;
        for (int k = 0; k < GR_WEIGHTS && w[k].role; k++)
            if (gr_node_weight(n, k) != GR_NONE)
                f->use[f->n_uses++] = (struct gr_use){i, gr_node_weight(n, k), w[k].role};
        note_state(g, n, i);
        if (gr_ops[n->op].state != STATE_NONE || w[0].role == USE_ROWS) f->apart = i + 1;
    }
}

bool graph_can_begin(const struct graph *g, int first, bool all_keys) {
    bool *made = xcalloc((size_t)g->n_regs + 1, sizeof *made), ok = true;
    bool *slot = xcalloc((size_t)g->n_attn_slots + 1, sizeof *slot);
    made[g->residual] = true;
    for (int i = first; i < g->n_nodes && ok; i++) {
        const struct gr_node *n = &g->node[i];
        const struct gr_op_info *op = &gr_ops[n->op];
        if (all_keys && n->selects) continue;
        const int n_src = all_keys && n->op == OP_ATTN ? ATTN_KEYS : GR_SOURCES;
        for (int k = 0; k < n_src; k++) ok = ok && (n->src[k] == GR_NONE || made[n->src[k]]);
        if (op->flags & OP_READS_DST) ok = ok && made[n->dst];
        if (op->w[0].role == USE_ROWS) ok = false; /* depends on the tokens */
        if (op->state == STATE_KV && n->src[1] == GR_NONE) ok = ok && slot[n->slot];
        if (op->state == STATE_KV) slot[n->slot] = true;
        if (n->dst != GR_NONE) made[n->dst] = true;
        if (n->dst2 != GR_NONE) made[n->dst2] = true;
    }
    free(made);
    free(slot);
    return ok;
}

int64_t graph_top_keys(const struct graph *g) {
    return graph_count(g, OP_INDEX) ? graph_nth(g, OP_INDEX, 0)->index.top : 0;
}

void graph_layers(const struct graph *g, int *first, int *n, int *of) {
    int lo = INT_MAX, hi = 0, at = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const int layer = g->node[i].layer;
        if (layer >= 0 && layer < lo) lo = layer;
        if (layer > hi) hi = layer;
    }
    *first = lo == INT_MAX ? 0 : lo;
    *n = hi - *first + 1;
    for (int i = 0; i < g->n_nodes; i++) {
        if (g->node[i].layer >= 0) at = g->node[i].layer - *first;
        of[i] = at;
    }
}

int graph_before(const struct graph *g, int layer) {
    int i = 0;
    if (layer > 0) return g->hidden_nodes[layer - 1];
    while (i < g->n_nodes && g->node[i].layer < 0) i++;
    return i - 1;
}

bool graph_reads(const struct graph *g, int at, int end, gr_reg r, bool kept) {
    for (int i = at; i < end; i++) {
        const struct gr_node *n = &g->node[i];
        for (int k = 0; k < GR_SOURCES; k++)
            if (n->src[k] == r) return true;
        if (n->dst == r && (gr_ops[n->op].flags & OP_READS_DST)) return true;
        if (n->dst == r || n->dst2 == r) return false;
    }
    return kept;
}

bool graph_live(const struct graph *g, int at, gr_reg r) {
    return graph_reads(g, at, g->n_nodes, r, r == g->hidden_out);
}

int graph_count(const struct graph *g, enum gr_op op) {
    return g->facts.n_of_op[op];
}

const struct gr_node *graph_nth(const struct graph *g, enum gr_op op, int i) {
    return &g->node[g->facts.of_op[op][i]];
}
