// SPDX-License-Identifier: MIT
/* models/graph.h - forward graph: a forward pass as a list of operations on activation registers.
 * Only builds graphs; runtime/engine/cpu/ executes them. A register holds [n_tok][width] f32.
 * Operations are coarse (all of attention, a whole MoE layer), so that executors can fuse their
 * steps; each has a row in models/ops.def with its formula. */
#ifndef HONE_MODELS_GRAPH_H
#define HONE_MODELS_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef int gr_reg; /* register index; GR_NONE: absent */
typedef int gr_w;   /* weight index into graph.weight[] */
enum { GR_NONE = -1 };

/* Operations in models/ops.def: OP_EMBED, OP_RMS, ... */
enum gr_op {
#define OP(id, name, flags, state, ...) OP_##id,
#include "models/ops.def"
#undef OP
    OP_COUNT
};
enum gr_act { /* f in OP_ACT */
              GR_SILU,
              GR_GELU,
              GR_GELU_ERF,
              GR_RELU2,
              GR_XIELU,
              GR_TANH,
              GR_CLAMPED /* with the constants below */
};
#define GR_CLAMPED_ALPHA 1.702f
#define GR_CLAMPED_LIMIT 7.0f
enum gr_factor { GR_VALUE, GR_SIGMOID_OF, GR_SOFTPLUS_OF };   /* f in OP_MUL */
enum gr_score { GR_SOFTMAX, GR_SIGMOID, GR_LOGIT, GR_MIXER }; /* p in OP_MOE */
enum { GR_WEIGHTS = 10, GR_SOURCES = 4 }; /* maximum weights and sources per operation */
enum { ATTN_KEYS = 3 };                   /* the source of OP_ATTN that holds selected keys */

/* Role of a weight in an operation. */
enum gr_role {
    USE_NONE,
    USE_VEC,      /* elementwise, as f32 */
    USE_DIVISORS, /* divisors of rotary angles; tabulated before the pass */
    USE_ROWS,     /* matrix for row lookups */
    USE_MATRIX,   /* matrix product */
    USE_HEADS,    /* one matrix per head, each with its own input */
    USE_DOT,      /* one row; its dot product with a token's input is one number */
    USE_ROUTER,   /* matrix product that selects experts */
    USE_EXP_GATE, /* matrices of the routed experts */
    USE_EXP_UP,
    USE_EXP_DOWN,
    USE_COUNT
};
/* State that an operation keeps between tokens. */
enum gr_state { STATE_NONE, STATE_KV, STATE_CONV, STATE_SCAN };
enum gr_flag { OP_READS_DST = 1 }; /* also reads dst, which is not among the sources */

struct gr_op_info {
    const char *name;
    unsigned flags;
    enum gr_state state;
    struct gr_op_weight {
        const char *name; /* "moe.router", as in struct gr_node */
        size_t at;        /* offset of that member in bytes */
        enum gr_role role;
    } w[GR_WEIGHTS]; /* ends before the first USE_NONE */
};
extern const struct gr_op_info gr_ops[OP_COUNT];

struct gr_role_info {
    bool matrix;   /* rows of a matrix, of any tensor type; otherwise f32 values */
    bool product;  /* used by the fast matrix products, so it may be packed */
    bool observed; /* the importance matrix is collected from its inputs */
    bool expert;   /* one matrix per routed expert */
};
extern const struct gr_role_info gr_roles[USE_COUNT];

/* Weights and parameters of an operation, in addition to its registers. Similar operations share a
 * struct. An operation's row in models/ops.def names its struct and has the formula that uses the
 * members. An absent weight is GR_NONE; a parameter of 0 is unused. */
struct gr_embed {
    gr_w table;
    bool position;      /* the token's position, not its id, selects the row */
    bool scales_images; /* `scale` also applies to the rows of images */
    float scale;
};
struct gr_norm { /* OP_RMS, OP_RMS_HEADS, OP_GATED_RMS, OP_LAYER_NORM */
    gr_w weight, bias;
    int64_t head_dim;
    float eps;
};
struct gr_product { /* OP_MATMUL, OP_MATMUL_HEADS */
    gr_w matrix;
};
struct gr_bias {
    gr_w values;
};
struct gr_heads { /* OP_SPLIT_GATE, OP_FIT_HEADS */
    int64_t head_dim, from;
};
struct gr_mul {
    enum gr_factor f;
};
struct gr_rope {
    gr_w divisors, far;
    int64_t head_dim, n_rot;
    double base, factor;
    bool adjacent; /* pairs are adjacent values, not the two halves */
    bool no_yarn;  /* the graph's context extension does not apply */
};
struct gr_attn {
    gr_w sinks;
    int64_t n_heads, n_kv_heads, head_dim, window;
    int64_t latent;    /* width of a latent row; 0: separate keys and values */
    int64_t key_block; /* with selected keys: gr_index.block */
    float scale, softcap;
    bool chunked; /* the window is the query's aligned block of `window` positions */
    bool whole;   /* a token of an image also sees the image's later tokens */
};
struct gr_index { /* OP_INDEX */
    int64_t n_heads, head_dim, top;
    int64_t block, local; /* keys are selected in blocks; the last `local` always; 0: one by one */
};
struct gr_conv { /* OP_CONV_SILU, OP_SHORT_CONV */
    gr_w weight, bias;
};
/* OP_DELTA, OP_KDA, OP_MAMBA2, OP_MAMBA1: their state is a matrix [k_dim][v_dim] per value head. */
struct gr_delta {
    gr_w a, dt, skip;
    int64_t n_v_heads, n_k_heads, k_dim, v_dim;
    int64_t offset; /* offset of dt in a wider register */
    bool grouped;   /* OP_DELTA: value heads are grouped by key head */
    float bound;    /* OP_KDA: smallest logarithm of a decay; 0: none */
    float eps, scale;
};
struct gr_gate { /* OP_GATE_ADD */
    gr_w row;
};
struct gr_xielu { /* parameters of the activation */
    float p, n, b, eps;
};
struct gr_pick { /* OP_ACT, OP_GEGLU, OP_COLUMNS: offset in the wider register; OP_SPREAD */
    int64_t offset;
    enum gr_act f;
    struct gr_xielu xielu;
};
struct gr_temper {
    float scale;
    int64_t step, offset;
};
struct gr_scale { /* OP_SCALE, OP_PEAKS, OP_CLAMP */
    gr_w number;
    float by;
};
struct gr_choice { /* selection of experts; all 0: plain softmax router */
    enum gr_score score;
    bool keep; /* do not divide the weights by their sum */
    int64_t groups, top;
    float scale;
    float margin; /* for GR_MIXER */
};
struct gr_moe {
    gr_w router, gate, up, down, factor, prefer, router_bias, gate_bias, up_bias, down_bias;
    bool joined; /* gate and up are one tensor, `gate` */
    bool relu2;  /* no gate: `gate` holds the rows of up, and the activation is max(0, x)^2 */
    bool gelu;
    bool scales_input;  /* the weight of the single expert scales its input, not its output */
    bool late;          /* clamp after silu: min(silu(g), limit) * u, without alpha */
    float alpha, limit; /* for the clamped activation; limit 0: no clamp */
    int64_t n_used;
    struct gr_choice choice;
};

struct gr_node {
    enum gr_op op;
    int layer; /* block index, -1: global; for messages, imatrix, probes */
    gr_reg dst, dst2, src[GR_SOURCES];
    int slot; /* slot of its state, counted among attention layers or among recurrent layers */
    /* Belongs to an indexer: only serves to select keys, which a context of at most gr_index.top
     * tokens does not need. */
    bool selects;
    union { /* member determined by op */
        struct gr_embed embed;
        struct gr_norm norm;
        struct gr_product product;
        struct gr_bias bias;
        struct gr_heads heads;
        struct gr_mul mul;
        struct gr_rope rope;
        struct gr_attn attn;
        struct gr_index index;
        struct gr_conv conv;
        struct gr_delta delta;
        struct gr_gate gate;
        struct gr_pick pick;
        struct gr_scale scale;
        struct gr_temper temper;
        struct gr_moe moe;
    };
};
/* Returns the k-th weight of a node in the order of its row in models/ops.def, for code that treats
 * all weights alike. GR_NONE: absent. */
gr_w gr_node_weight(const struct gr_node *n, int k);
/* Returns whether an OP_MOE has a plain softmax router and ordinary gated experts. */
bool gr_moe_is_plain(const struct gr_moe *m);
/* Returns the number of values in attention's output per head. */
static inline int64_t gr_attn_values(const struct gr_attn *a) {
    return a->latent ? a->latent : a->head_dim;
}

struct gr_weight {
    char name[64];
    int64_t ne[4];
    int optional_of; /* earlier weight to use if the tensor is absent (tied output); -1: none */
};
/* Context extension of every OP_ROPE: the angle of pair j is multiplied by (1 - r)/factor + r,
 * where r = 1 - clamp((j - low) / max(0.001, high - low), 0, 1), low = max(0, floor(c(fast))), high
 * = min(n_rot - 1, ceil(c(slow))), c(b) = n_rot ln(ctx / (2 pi b)) / (2 ln base), without floor and
 * ceil if smooth; cos and sin are multiplied by attn * (0.1 ln(factor) + 1). factor 0: none. */
struct gr_yarn {
    double factor, attn, fast, slow, ctx;
    bool smooth;
};
/* Facts derived from the nodes once, so that other code need not walk the graph. Computed by
 * graph_finish; the graph owns the arrays. */
struct gr_use { /* one weight of one node */
    int node;
    gr_w w;
    enum gr_role role;
};
/* Shape of the keys and values in an attention slot, from the layer that writes it. In a latent
 * slot the key is the rotated part, and the value the latent row. */
struct gr_kv {
    int node, layer;
    int64_t n_heads, k_dim, v_dim, window;
    int64_t
        top; /* keys of an indexer, unused by contexts of at most `top` tokens; 0: of attention */
};
struct gr_rec { /* state of one recurrent layer */
    int layer;
    int64_t conv_width, n_channels; /* convolution; its tail is (width - 1) * channels */
    int64_t n_conv, n_scan;         /* floats in the tail and in the matrices of the scan */
};
struct graph_facts {
    struct gr_use *use; /* by node, then in the order of its row; without absent weights */
    int n_uses;
    struct gr_kv *kv;                        /* [n_attn_slots] */
    struct gr_rec *rec;                      /* [n_rec_slots] */
    int *of_op[OP_COUNT], n_of_op[OP_COUNT]; /* nodes of each operation, in order */
    /* First node after which tokens are independent: no later node keeps state or reads other
     * tokens. */
    int apart;
};

struct graph {
    struct gr_node *node;
    int n_nodes, cap_nodes;
    bool selecting; /* gr_node.selects of the nodes appended next */
    struct gr_weight *weight;
    int n_weights, cap_weights;
    int64_t *reg_width;
    int n_regs, cap_regs;
    int n_attn_slots, n_rec_slots;
    double rope_base;
    double rope_m; /* factor for cos and sin in every OP_ROPE; 0: 1 */
    struct gr_yarn yarn;
    /* Models with three rotary positions per token (time, row and column in an image): the number
     * of pairs that rotate by each; all 0: one position. The pairs of a section are adjacent or, if
     * mixed, every third one: pair j belongs to section j mod 3 if j < 3 * section, else to the
     * first. */
    int64_t section[3];
    bool mixed_sections;
    double softcap;   /* soft cap of the head: logits = softcap * tanh(logits / softcap); 0: none */
    gr_reg hidden_in; /* draft graphs: hidden states passed in with the tokens (session_pass) */
    gr_reg hidden_out; /* after the final norm: input of `output` */
    gr_w output;       /* the head; the executor computes only the requested rows */
    gr_w head_bias;    /* added to the logits before their soft cap; GR_NONE: none */
    /* Index of the node after which block i's residual is complete (for probes); [n_layers]: the
     * final norm. */
    int hidden_nodes[512 + 1];
    gr_reg residual;
    struct graph_facts facts;
};

/* Makes the graph empty, with all its registers and weights absent. */
void graph_init(struct graph *g);
void graph_release(struct graph *g);
/* Adds a register of this width and returns its index. */
gr_reg graph_reg(struct graph *g, int64_t width);
/* Adds a weight and returns its index. Its name is fmt with %d replaced by the layer; ne0, ne1 and
 * ne2 are its shape in GGUF order, innermost first (arch.h lists outermost first). */
gr_w graph_weight(struct graph *g, const char *fmt, int layer, int64_t ne0, int64_t ne1,
                  int64_t ne2);
struct gr_node *graph_node(struct graph *g, enum gr_op op,
                           int layer); /* all registers GR_NONE; borrowed until the next node */
/* Computes g->facts. The graph must be complete; arch_build and arch_build_draft call it. */
void graph_finish(struct graph *g);
/* Returns whether the nodes from `first` on depend only on the residual, and not on token ids or on
 * keys that an earlier node appended to the cache. all_keys: keys are not selected. */
bool graph_can_begin(const struct graph *g, int first, bool all_keys);
/* Returns the longest context in which attention sees all keys, so that no indexer is needed; 0:
 * the graph has no indexer. */
int64_t graph_top_keys(const struct graph *g);
/* Finds the layers in a graph, which may cover only part of the model: *n layers, starting at
 * *first. Sets of[n_nodes] to each node's layer, counted from 0. A node outside layers gets the
 * layer of the preceding node, or the first layer. */
void graph_layers(const struct graph *g, int *first, int *n, int *of);
/* Returns the node after which the residual is the input of a layer, 0 .. number of layers. */
int graph_before(const struct graph *g, int layer);
/* Returns whether nodes [at, end) read register r before writing it; returns `kept` if they do
 * neither. */
bool graph_reads(const struct graph *g, int at, int end, gr_reg r, bool kept);
/* Returns whether a later node, or the head, reads the value that register r has at node `at`. */
bool graph_live(const struct graph *g, int at, gr_reg r);
/* Return the number of nodes with an operation, and the i-th of them, from 0. */
int graph_count(const struct graph *g, enum gr_op op);
/* Returns the i-th node with this operation, from 0; it must exist. */
const struct gr_node *graph_nth(const struct graph *g, enum gr_op op, int i);
/* Returns an operation's name; "?": not an operation. */
const char *gr_op_name(enum gr_op op);

#endif
