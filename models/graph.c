// SPDX-License-Identifier: MIT
/* models/graph.c - the lists of a forward graph: nodes, weights, registers. Building only; it knows
 * neither an architecture nor how an operation is computed. */
#include "models/graph.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "models/arch.h"

void graph_init(struct graph *g) {
    memset(g, 0, sizeof *g);
    g->hidden_in = g->hidden_out = g->residual = g->output = GR_NONE;
    for (size_t i = 0; i < sizeof g->hidden_nodes / sizeof *g->hidden_nodes; i++)
        g->hidden_nodes[i] = GR_NONE;
}

void graph_release(struct graph *g) {
    free(g->node);
    free(g->weight);
    free(g->reg_width);
    graph_init(g);
}

/* Room for one more item of `size` bytes; returns the array. */
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
    /* Names come from our own tables, whose lengths tests check; a cut one would not be found. */
    (void)arch_name(w->name, sizeof w->name, fmt, strlen(fmt), layer, 0);
    return g->n_weights++;
}

struct gr_node *graph_node(struct graph *g, enum gr_op op, int layer) {
    g->node = grow(g->node, g->n_nodes, &g->cap_nodes, sizeof *g->node);
    struct gr_node *n = &g->node[g->n_nodes++];
    *n = (struct gr_node){.op = op,
                          .layer = layer,
                          .dst = GR_NONE,
                          .dst2 = GR_NONE,
                          .src = {GR_NONE, GR_NONE, GR_NONE},
                          .w = {GR_NONE, GR_NONE, GR_NONE, GR_NONE, GR_NONE},
                          .slot = GR_NONE};
    return n;
}

const char *gr_op_name(enum gr_op op) {
    static const char *const name[OP_COUNT] = {
        [OP_EMBED] = "embed",         [OP_RMS] = "rms",     [OP_RMS_HEADS] = "rms_heads",
        [OP_MATMUL] = "matmul",       [OP_ADD] = "add",     [OP_SPLIT_GATE] = "split_gate",
        [OP_ROPE] = "rope",           [OP_ATTN] = "attn",   [OP_SIGMOID_MUL] = "sigmoid_mul",
        [OP_CONV_SILU] = "conv_silu", [OP_DELTA] = "delta", [OP_GATED_RMS] = "gated_rms",
        [OP_SWIGLU] = "swiglu",       [OP_MOE] = "moe",     [OP_GATE_ADD] = "gate_add",
        [OP_GEGLU] = "geglu",         [OP_SCALE] = "scale", [OP_CONCAT] = "concat",
    };
    return (unsigned)op < OP_COUNT ? name[op] : "?";
}
