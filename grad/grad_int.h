// SPDX-License-Identifier: MIT
/* grad/grad_int.h - declarations shared by the derivatives. Internal to grad/.
 *
 * Gradients mirror the graph's registers: grad.reg[r] holds the gradients of register r's contents
 * at the node whose backward pass is running. A derivative reads the gradients of the node's dst
 * and adds to those of its sources. Before an operation that overwrites a register, the register
 * has no gradient: grad_take moves the gradients out and leaves zeros. */
#ifndef HONE_RUNTIME_GRAD_GRAD_INT_H
#define HONE_RUNTIME_GRAD_GRAD_INT_H

#include <math.h>

#include "runtime/engine/exec.h"
#include "grad/grad.h"

enum { /* node data kept in the forward pass */
       KEEP_SRC0 = 1,
       KEEP_SRC1 = 2,
       KEEP_SRC2 = 4,
       KEEP_DST = 16,   /* dst as it was before the node ran */
       KEEP_CHOICE = 32 /* experts, their weights and the router's scores */
};
struct kept { /* values kept for one node; each [n][width] or NULL */
    const float *src[GR_SOURCES], *dst;
    const int32_t *expert; /* [n][n_used] */
    float *weight;         /* [n][n_used] */
    float *score;          /* [n][n_experts] probabilities of all experts */
};
struct grad {
    const struct model *m;
    const struct graph *g;
    struct session *s;
    struct pool *pool;
    int64_t n_ctx, n;  /* longest text, current text */
    float **reg;       /* [n_regs] gradients, [n_ctx][width] each */
    float *taken[2];   /* [n_ctx][widest] for grad_take */
    float **scratch;   /* [workers] work memory of a task (struct back) */
    struct kept *kept; /* [n_nodes] */
    float *tape;       /* data of `kept`, for the nodes from tape_from on */
    int64_t tape_used;
    int tape_from;
    struct grad_lent { /* keys and values that later layers read as well; or NULL */
        float *key, *value, *dkey, *dvalue; /* [n_ctx][width], and gradients from these layers */
    } * lent;                               /* [n_attn_slots] */
    struct grad_moe {
        /* Rows of pairs (token, expert), sorted by expert: inputs and their gradients
         * [pairs][d]; gate and up with their gradients, and the input of down, [pairs][f]. */
        float *x, *dx, *gate, *up, *h, *dgate, *dup, *y, *dy;
        float *both; /* [pairs][2 f] gate and up of a shared tensor; NULL: separate tensors */
        float *weight, *dweight; /* [pairs], in sorted order */
        float *score;            /* [n_ctx][experts] gradients of the router's logits */
        int32_t *place, *token, *first;
    } moe;
    float *residual; /* [n_blocks + 1][n_ctx][n_embd] input of each block */
    float *hidden;   /* [n_ctx][n_embd] input of the head */
    float *shared;   /* work memory of the current derivative (struct back) */
    grad_see_fn see;
    void *see_ud;
    const int32_t *seen_tokens; /* tokens of an expert's rows while `see` runs; NULL: all */
    session_show_fn see_input;
    void *see_input_ud;
    grad_residual_fn see_residual;
    void *see_residual_ud;
    grad_lookup_fn see_lookup;
    void *see_lookup_ud;
    grad_vector_fn see_vector;
    void *see_vector_ud;
    grad_aim_fn aim; /* NULL: the loss is that of answers */
    void *aim_ud;
    const int32_t *ids; /* [n] current text, borrowed */
};

typedef void (*back_fn)(struct grad *g, const struct gr_node *n, const struct kept *k);
/* Derivative of an operation. */
struct back {
    back_fn fn;                                                  /* NULL: none */
    unsigned keep;                                               /* KEEP_... flags */
    bool (*can)(const struct graph *g, const struct gr_node *n); /* NULL: always */
    /* Return the floats that it needs in grad.scratch[worker] and in grad.shared; NULL: none. */
    int64_t (*scratch)(const struct gr_node *n, int64_t n_ctx);
    int64_t (*shared)(const struct gr_node *n, int64_t n_ctx);
};
extern const struct back back_table[OP_COUNT];

/* Moves the gradients of register r to buffer `which` (0 or 1) and leaves zeros. */
const float *grad_take(struct grad *g, gr_reg r, int which);
/* Runs fn over the tokens of the text. */
void grad_tokens(struct grad *g, pool_fn fn, void *ctx);
/* Computes dx [m][ld_x] += dy [m][ld_y] . W for rows [r0, r1) of the matrix W at `mat`; column 0 of
 * dy belongs to row r0. scratch: space for GRAD_PANEL rows of W. */
void grad_rows_back(const struct grad *g, const struct weight *w, const uint8_t *mat, int64_t r0,
                    int64_t r1, const float *dy, int64_t ld_y, float *dx, int64_t ld_x, int64_t m,
                    float *scratch);
/* Computes y [m][ld_y] = x [m][ld_x] . W^T for the rows [r0, r1) of W. scratch: space for
 * GRAD_PANEL rows of W. */
void grad_rows(const struct grad *g, const struct weight *w, const uint8_t *mat, int64_t r0,
               int64_t r1, const float *x, int64_t ld_x, float *y, int64_t ld_y, int64_t m,
               float *scratch);
enum { GRAD_PANEL = 64, GRAD_QUERIES = 64 };
/* Recurrence over the tokens of a text, from a state of zeros. */
struct grad_scan {
    int64_t size, n; /* floats of the state; tokens */
    void *ctx;
    /* Computes the state `to` after token t from the state s before it; to may be s. */
    void (*forward)(void *ctx, int64_t t, const float *s, float *to);
    /* Adds the gradients of token t's inputs. s and next are the states before and after it. On
     * entry z is the gradient with respect to `next` from later tokens, on return the one with
     * respect to s. */
    void (*back)(void *ctx, int64_t t, const float *s, const float *next, float *z);
};
/* Runs a recurrence backward, last token first. room: grad_scan_floats(size, n_ctx) floats. */
void grad_scan(const struct grad_scan *r, float *room);
int64_t grad_scan_floats(int64_t size, int64_t n_ctx);
/* Computes the loss of the current text, whose head's input rows are in g->hidden, and the
 * gradients of these rows. */
int grad_head(struct grad *g, const int32_t *answer, uint64_t seed, double *loss, struct err *e);
/* Computes grad_rows_back for a whole dense weight and all tokens of the text. */
void grad_product(struct grad *g, const struct weight *w, const float *dy, float *dx, int64_t m);
static inline int64_t grad_width(const struct grad *g, gr_reg r) {
    return g->g->reg_width[r];
}
/* Normalizes n values: to = scale * x / sqrt(|x|^2 + eps). */
void grad_unit(float *to, const float *x, int64_t n, float eps, float scale);
/* Adds to dx the gradient of x in grad_unit, given that of `to`. */
void grad_unit_back(const float *x, const float *dy, int64_t n, float eps, float scale, float *dx);
/* Return the derivatives of silu and of gelu, the latter as in OP_GEGLU (gelu_of). */
float grad_silu(float x);
/* Returns the derivative of GELU (tanh form) at x. */
float grad_gelu(float x);
/* Returns GELU (tanh form) of x. */
float gelu_of(float x);

#define BACK(name) void back_##name(struct grad *g, const struct gr_node *n, const struct kept *k)
BACK(embed);
BACK(rms);
BACK(rms_heads);
BACK(gated_rms);
BACK(layer_norm);
BACK(matmul);
BACK(matmul_heads);
BACK(bias);
BACK(add);
BACK(split_gate);
BACK(rope);
BACK(attn);
BACK(sigmoid_mul);
BACK(mul);
BACK(clamp);
BACK(fit_heads);
BACK(conv_silu);
BACK(short_conv);
BACK(delta);
BACK(kda);
BACK(mamba1);
BACK(mamba2);
BACK(swiglu);
BACK(moe);
BACK(gate_add);
BACK(act);
BACK(geglu);
BACK(scale);
BACK(temper);
BACK(concat);
BACK(columns);
BACK(mix);
BACK(spread);
BACK(level);
BACK(peaks);
/* Return the work memory of derivatives in floats (struct back). */
int64_t grad_attn_shared(const struct gr_node *n, int64_t n_ctx);
int64_t grad_delta_scratch(const struct gr_node *n, int64_t n_ctx);
int64_t grad_kda_scratch(const struct gr_node *n, int64_t n_ctx);
int64_t grad_ssm_scratch(const struct gr_node *n, int64_t n_ctx);
int64_t grad_ssm_shared(const struct gr_node *n, int64_t n_ctx);
/* Returns whether gradients of these experts are implemented. */
bool can_moe(const struct graph *g, const struct gr_node *n);

#endif
