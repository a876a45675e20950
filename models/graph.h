// SPDX-License-Identifier: MIT
/* models/graph.h - a forward pass as a list of operations on named activation registers. Building
 * only; runtime/exec_*.c executes. A register holds [n_tok][width] f32. Operations are coarse (a
 * whole attention, a whole MoE) so that executors can fuse; models/ops.def has a row for each, with
 * its formula. */
#ifndef HONE_MODELS_GRAPH_H
#define HONE_MODELS_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

typedef int gr_reg; /* register index; GR_NONE when absent */
typedef int gr_w;   /* weight index into graph.weight[] */
enum { GR_NONE = -1 };

/* Operations, as models/ops.def lists them: OP_EMBED, OP_RMS, ... */
enum gr_op {
#define OP(id, name, flags, state, weights) OP_##id,
#include "models/ops.def"
#undef OP
    OP_COUNT
};
enum gr_act { GR_SILU, GR_GELU, GR_GELU_ERF, GR_RELU2 }; /* f of OP_ACT */
enum gr_score { GR_SOFTMAX, GR_SIGMOID, GR_LOGIT };      /* p of OP_MOE */
enum { GR_WEIGHTS = 10, GR_SOURCES = 3 }; /* most weights and sources of an operation */

/* What a weight is to the operation that takes it. */
enum gr_role {
    USE_NONE,
    USE_VEC,      /* values that are used one by one, as f32 */
    USE_DIVISORS, /* of rotary angles; they enter a table before the pass */
    USE_ROWS,     /* a matrix of which rows are looked up */
    USE_MATRIX,   /* a matrix product */
    USE_DOT,      /* one row that is multiplied with each token's, giving one number */
    USE_ROUTER,   /* a matrix product that chooses experts */
    USE_EXP_GATE, /* matrices of the routed experts */
    USE_EXP_UP,
    USE_EXP_DOWN,
    USE_COUNT
};
/* What an operation keeps from one token to the next. */
enum gr_state { STATE_NONE, STATE_KV, STATE_CONV, STATE_SCAN };
enum gr_flag { OP_READS_DST = 1 }; /* dst is read too, although it is no source */

struct gr_op_info {
    const char *name;
    unsigned flags;
    enum gr_state state;
    enum gr_role w[GR_WEIGHTS];
};
extern const struct gr_op_info gr_ops[OP_COUNT];

struct gr_role_info {
    bool matrix;   /* rows of a matrix, of any tensor type; otherwise values that are read as f32 */
    bool product;  /* enters the fast matrix products, so it may be packed */
    bool observed; /* its inputs make up the importance matrix */
    bool expert;   /* one matrix per routed expert */
};
extern const struct gr_role_info gr_roles[USE_COUNT];

/* How OP_MOE chooses and weighs experts; all 0: as softmax routers do. */
struct gr_router {
    enum gr_score score;
    bool keep;           /* weights are not divided by their sum */
    int64_t groups, top; /* 0: none */
    float scale;         /* 0: 1 */
};

struct gr_node {
    enum gr_op op;
    int layer; /* block index, -1 global: for messages, imatrix, probes */
    gr_reg dst, dst2, src[GR_SOURCES];
    gr_w w[GR_WEIGHTS];
    int slot; /* OP_ATTN: index among attention layers; OP_CONV/DELTA: among recurrent layers */
    int64_t n_heads, n_kv_heads, head_dim, n_rot, n_used, v_dim;
    float eps, scale;
    double rope_base;       /* OP_ROPE */
    int64_t window, offset; /* OP_ATTN; OP_GEGLU, OP_ACT, OP_COLUMNS */
    bool adjacent, gelu;    /* OP_ROPE; OP_MOE */
    enum gr_act act;
    double rope_factor; /* OP_ROPE: angles are divided by it; 0: 1 */
    bool no_yarn;       /* OP_ROPE: the graph's context extension is not for this layer */
    float softcap;      /* OP_ATTN; 0: none */
    struct gr_router router;
    float alpha, limit; /* OP_MOE: of the clamped activation; limit 0: another one */
};
/* Whether an OP_MOE chooses as softmax routers do, with experts of the usual form. */
static inline bool gr_router_is_plain(const struct gr_node *n) {
    const struct gr_router *r = &n->router;
    bool plain =
        r->score == GR_SOFTMAX && !r->keep && !r->groups && !(r->scale > 0) && !(n->limit > 0);
    for (int k = 5; k < GR_WEIGHTS; k++) plain = plain && n->w[k] == GR_NONE;
    return plain;
}
struct gr_weight {
    char name[64];
    int64_t ne[4];
    int optional_of; /* -1, or an earlier weight: used when the tensor is absent (tied output) */
};
/* Context extension of every OP_ROPE: the angle of pair j is multiplied by (1 - r)/factor + r,
 * where r = 1 - clamp((j - low) / max(0.001, high - low), 0, 1), low = max(0, floor(c(fast))), high
 * = min(n_rot - 1, ceil(c(slow))), c(b) = n_rot ln(ctx / (2 pi b)) / (2 ln base); cos and sin by
 * attn * (0.1 ln(factor) + 1). factor 0: none. */
struct gr_yarn {
    double factor, attn, fast, slow, ctx;
};
/* Facts that follow from the nodes, so that nobody walks over them to find out again. graph_finish
 * computes them; pointers are owned by the graph. */
struct gr_use { /* one weight of one node */
    int node;
    gr_w w;
    enum gr_role role;
};
struct gr_kv { /* keys and values of one attention slot, as the layer that appends to it has them */
    int node, layer;
    int64_t n_heads, k_dim, v_dim, window;
};
struct gr_rec { /* state of one recurrent layer */
    int layer;
    int64_t conv_width, n_channels; /* of the convolution; its tail is (width - 1) * channels */
    int64_t n_conv, n_scan;         /* floats of the tail, floats of the scan's matrices */
};
struct graph_facts {
    struct gr_use *use; /* in order of nodes, and of w[] within one; absent weights left out */
    int n_uses;
    struct gr_kv *kv;                        /* [n_attn_slots] */
    struct gr_rec *rec;                      /* [n_rec_slots] */
    int *of_op[OP_COUNT], n_of_op[OP_COUNT]; /* nodes of each operation, in order */
};

struct graph {
    struct gr_node *node;
    int n_nodes, cap_nodes;
    struct gr_weight *weight;
    int n_weights, cap_weights;
    int64_t *reg_width;
    int n_regs, cap_regs;
    int n_attn_slots, n_rec_slots;
    double rope_base;
    double rope_m; /* factor of cos and sin of every OP_ROPE; 0: 1 */
    struct gr_yarn yarn;
    double softcap;    /* of the head: logits = softcap * tanh(logits / softcap); 0: none */
    gr_reg hidden_in;  /* draft graphs: rows given with the tokens (session_forward_hidden) */
    gr_reg hidden_out; /* after the final norm: input of `output` */
    gr_w output;       /* the head; the executor multiplies only the rows asked for */
    /* Node index after which the residual of block i is complete (probes); [n_layers]: the final
     * norm. */
    int hidden_nodes[512 + 1];
    gr_reg residual;
    struct graph_facts facts;
};

void graph_init(struct graph *g);
void graph_release(struct graph *g);
gr_reg graph_reg(struct graph *g, int64_t width);
/* fmt with the layer number; shapes outer-to-inner as in arch.h but GGUF ne order here. */
gr_w graph_weight(struct graph *g, const char *fmt, int layer, int64_t ne0, int64_t ne1,
                  int64_t ne2);
struct gr_node *graph_node(struct graph *g, enum gr_op op,
                           int layer); /* all registers GR_NONE; borrowed until the next node */
/* Computes g->facts. The graph must be complete; arch_build and arch_build_draft call it. */
void graph_finish(struct graph *g);
/* Number of nodes of an operation, and the i-th of them. */
int graph_count(const struct graph *g, enum gr_op op);
const struct gr_node *graph_nth(const struct graph *g, enum gr_op op, int i);
const char *gr_op_name(enum gr_op op);

#endif
