// SPDX-License-Identifier: MIT
/* runtime/engine/cost.c - bytes and FLOP of steps. The roles of a node's weights and the kinds of
 * its state determine the cost, so no operation is handled by name. */
#include "runtime/engine/cost.h"

#include "base/num.h"

enum { SCAN_FLOP = 7 };

/* Returns the size of register r in a pass of c->n_rows rows. */
static uint64_t reg_bytes(const struct cost_of *c, gr_reg r) {
    return (uint64_t)(c->g->reg_width[r] * c->n_rows) * sizeof(float);
}

/* ---- weights ---- */

/* Returns the largest share of a layer's experts (0 to 1) that n_rows rows can choose. */
static double chosen(const struct cost_of *c, const struct gr_node *n) {
    const int64_t all = c->g->weight[n->moe.router].ne[1];
    return (double)min_i64(all, c->n_rows * n->moe.n_used) / (double)all;
}
/* Adds to *o the bytes read and the FLOP of weight w, used by node n in the given role. */
static void add_weight(const struct cost_of *c, const struct gr_node *n, gr_w w, enum gr_role role,
                       struct cost *o) {
    const int64_t *ne = c->g->weight[w].ne;
    const double one = 2 * (double)(ne[0] * ne[1]), rows = (double)c->n_rows;
    const struct gr_role_info *r = &gr_roles[role];
    if (role == USE_ROWS) {
        o->n_read += (uint64_t)min_i64(c->n_rows, ne[1]) * (c->w_bytes[w] / (uint64_t)ne[1]);
    } else if (r->expert) {
        o->n_read += (uint64_t)((double)c->w_bytes[w] * chosen(c, n));
        o->flop += one * rows * (double)n->moe.n_used;
    } else {
        o->n_read += c->w_bytes[w];
        if (r->matrix || role == USE_DOT) o->flop += one * rows * (double)ne[2];
    }
}

/* ---- states ---- */

int64_t cost_keys(const struct graph *g, const struct gr_node *n, int64_t n_keys) {
    const int64_t window = g->facts.kv[n->slot].window;
    int64_t keys = window ? min_i64(window, n_keys) : n_keys;
    if (n->op == OP_ATTN && n->src[ATTN_KEYS] != GR_NONE)
        keys = min_i64(keys, g->reg_width[n->src[ATTN_KEYS]] / n->attn.n_kv_heads);
    return keys;
}

/* Adds to *o the bytes and FLOP of the node's keys and values or recurrent state; nothing if it has
 * none of these. */
static void add_state(const struct cost_of *c, const struct gr_node *n, struct cost *o) {
    const struct graph *g = c->g;
    const double rows = (double)c->n_rows;
    switch (gr_ops[n->op].state) {
    case STATE_NONE:
        return;
    case STATE_KV: {
        const struct gr_kv *kv = &g->facts.kv[n->slot];
        const int64_t keys = cost_keys(g, n, c->n_keys);
        const uint64_t row =
            (uint64_t)kv->n_heads * (c->kv->bytes(c->kv->k, kv->k_dim) +
                                     (kv->v_dim ? c->kv->bytes(c->kv->v, kv->v_dim) : 0));
        o->n_read += (uint64_t)keys * row;
        if (n->src[1] != GR_NONE) o->n_written += (uint64_t)c->n_rows * row;
        o->flop += 2 * rows *
                   (double)(keys * (g->reg_width[n->src[0]] +
                                    (n->op == OP_ATTN ? g->reg_width[n->dst] : 0)));
        return;
    }
    case STATE_CONV: {
        const struct gr_rec *r = &g->facts.rec[n->slot];
        o->n_read += (uint64_t)r->n_conv * sizeof(float);
        o->n_written += (uint64_t)r->n_conv * sizeof(float);
        o->flop += 2 * rows * (double)(r->conv_width * r->n_channels);
        return;
    }
    case STATE_SCAN: {
        const struct gr_rec *r = &g->facts.rec[n->slot];
        o->n_read += (uint64_t)r->n_scan * sizeof(float);
        o->n_written += (uint64_t)r->n_scan * sizeof(float);
        o->flop += SCAN_FLOP * rows * (double)r->n_scan;
        return;
    }
    }
}

/* ---- registers ---- */

/* Returns whether the node writes register r, as dst or dst2. */
static bool writes_reg(const struct gr_node *n, gr_reg r) {
    return n->dst == r || n->dst2 == r;
}
/* Adds the bytes of the registers that the nodes read from other steps or leave for them. */
static void add_registers(const struct cost_of *c, int first, int n_nodes, enum step_part part,
                          struct cost *o) {
    const bool begins = part == PART_ALL || part == PART_CHOOSE,
               ends = part == PART_ALL || part == PART_CONTRACT;
    const struct graph *g = c->g;
    const int end = first + n_nodes;
    for (gr_reg r = 0; r < g->n_regs; r++) {
        bool written = false;
        for (int i = first; i < end && ends && !written; i++) written = writes_reg(&g->node[i], r);
        if (begins && graph_reads(g, first, end, r, false)) o->n_read += reg_bytes(c, r);
        if (written && graph_live(g, end, r)) o->n_written += reg_bytes(c, r);
    }
}

/* Returns the cost of one part (PART_ALL: everything) of n_nodes nodes, starting at `first`. */
static struct cost cost_of_part(const struct cost_of *c, int first, int n_nodes,
                                enum step_part part) {
    struct cost o = {0};
    for (int i = first; i < first + n_nodes; i++) {
        const struct gr_node *n = &c->g->node[i];
        const struct gr_op_weight *w = gr_ops[n->op].w;
        const double before = o.flop;
        for (int k = 0; k < GR_WEIGHTS && w[k].role; k++)
            if (gr_node_weight(n, k) != GR_NONE &&
                (part == PART_ALL || step_part_of(w[k].role) == part))
                add_weight(c, n, gr_node_weight(n, k), w[k].role, &o);
        add_state(c, n, &o);
        if (part == PART_ALL && !(o.flop > before))
            o.flop += (double)(c->g->reg_width[n->dst] * c->n_rows);
    }
    add_registers(c, first, n_nodes, part, &o);
    return o;
}

/* Returns the size of a node's weights of this role. */
static uint64_t role_bytes(const struct cost_of *c, const struct gr_node *n, enum gr_role role) {
    const struct gr_op_weight *w = gr_ops[n->op].w;
    uint64_t bytes = 0;
    for (int k = 0; k < GR_WEIGHTS && w[k].role; k++)
        if (w[k].role == role && gr_node_weight(n, k) != GR_NONE)
            bytes += c->w_bytes[gr_node_weight(n, k)];
    return bytes;
}

struct cost cost_of_step(const struct cost_of *c, const struct step *s) {
    const struct gr_node *n = &c->g->node[s->first];
    uint64_t bytes = 0;
    if (s->kind == STEP_RUN || s->kind == STEP_HOST)
        return cost_of_part(c, s->first, s->part == PART_ALL ? s->n_nodes : 1, s->part);
    if (s->kind == STEP_BRING) bytes = role_bytes(c, n, s->role);
    if (s->kind == STEP_MOVE) bytes = reg_bytes(c, s->reg);
    if (s->kind == STEP_SEND) bytes = reg_bytes(c, n->dst);
    for (int k = 0; k < GR_SOURCES && s->kind == STEP_FETCH; k++)
        if (n->src[k] != GR_NONE && (!k || n->src[k] != n->src[0]))
            bytes += reg_bytes(c, n->src[k]);
    return (struct cost){.n_read = bytes, .n_written = bytes};
}

struct cost cost_of_head(const struct cost_of *c) {
    const int64_t *ne = c->g->weight[c->g->output].ne;
    return (struct cost){.n_read = c->w_bytes[c->g->output] + (uint64_t)ne[0] * sizeof(float),
                         .n_written = (uint64_t)ne[1] * sizeof(float),
                         .flop = 2 * (double)(ne[0] * ne[1])};
}
