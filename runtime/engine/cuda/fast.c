// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/fast.c - short passes with 8-bit activations: all products that read a
 * register share one quantized copy of it, and one launch computes several products. Results are
 * bit-identical with and without these fusions (1, 2 and 4 in the MASK of --device). */
#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/cuda/exec.h"

/* Returns the device copy of a matrix. */
static const struct cu_weight *mat_of(const struct cuda *d, gr_w w) {
    return &d->w[w].w;
}

bool exec_cuda_few(const struct cuda *d) {
    const struct session *s = d->s;
    return !d->exact && s->n_tok <= CU_FEW && !s->probe.product && !s->probe.residual;
}
bool exec_cuda_fuses(const struct cuda *d, unsigned what) {
    return exec_cuda_few(d) && (d->fuse & what) != 0;
}

/* ---- quantized copies of registers ---- */

/* Returns whether register r has an 8-bit copy that this pass may use. */
static bool can_quantize(const struct cuda *d, gr_reg r) {
    return d->q8[r] && exec_cuda_few(d);
}

void *exec_cuda_copy_of(struct cuda *d, gr_reg r) {
    const bool made = can_quantize(d, r) && exec_cuda_fuses(d, CUDA_FUSE_QUANT);
    d->q8_at[r] = made ? d->turn : 0;
    return made ? d->q8[r] : NULL;
}

int exec_cuda_quantized(struct cuda *d, gr_reg r, const void **q, struct err *e) {
    const int64_t k = d->s->g->reg_width[r];
    *q = d->q8[r];
    if (d->q8_at[r] && (d->fuse & CUDA_FUSE_SHARE)) return 0;
    d->q8_at[r] = d->turn;
    return cu_quantize(d->q, d->reg[r], k, k, d->s->n_tok, d->q8[r], e);
}

void exec_cuda_written(struct cuda *d, const struct gr_node *n) {
    const gr_reg r[2] = {n->dst, n->dst2};
    for (int i = 0; i < 2; i++)
        if (r[i] >= 0 && r[i] < d->s->g->n_regs && d->q8_at[r[i]] != d->turn) d->q8_at[r[i]] = 0;
}

/* ---- products ---- */

/* Returns whether products with w take 8-bit activations on the device; others are exact. */
static bool fast(const struct cuda *d, gr_w w) {
    return cu_part_can(mat_of(d, w), false);
}
/* Returns whether weight w has a kernel for products of few rows. */
static bool can_multiply(const struct cuda *d, gr_w w) {
    return fast(d, w) || cu_part_can(mat_of(d, w), true);
}
/* Sets the input of a product in a launch: register r itself if the product is exact, otherwise its
 * 8-bit copy, created on demand. */
static int input(struct cuda *d, struct cu_term *p, gr_reg r, struct err *e) {
    p->exact = !cu_part_can(p->w, false);
    p->x = d->reg[r];
    return p->exact ? 0 : exec_cuda_quantized(d, r, &p->x, e);
}

/* Fills p for a product with one matrix and one input row per token. */
static int plain_part(struct cuda *d, const struct gr_node *n, struct cu_term *p, struct err *e) {
    *p = (struct cu_term){.w = mat_of(d, n->product.matrix),
                          .n_in = d->s->n_tok,
                          .x_div = 1,
                          .n_sum = 1,
                          .y = d->reg[n->dst],
                          .ldy = d->s->g->reg_width[n->dst]};
    return input(d, p, n->src[0], e);
}

/* Fills p for three consecutive nodes starting at n: gate product, up product and activation
 * (SwiGLU or GEGLU). */
static int glu_part(struct cuda *d, const struct gr_node *n, struct cu_term *p, struct err *e) {
    *p = (struct cu_term){.w = mat_of(d, n[0].product.matrix),
                          .up = mat_of(d, n[1].product.matrix),
                          .gated = true,
                          .gelu = n[2].op == OP_GEGLU,
                          .n_in = d->s->n_tok,
                          .x_div = 1,
                          .n_sum = 1,
                          .y = d->reg[n[2].dst],
                          .ldy = d->s->g->reg_width[n[2].dst]};
    TRY(input(d, p, n[0].src[0], e));
    p->yq = exec_cuda_copy_of(d, n[2].dst);
    return 0;
}

bool exec_cuda_is_fast_glu(const struct cuda *d, const struct gr_node *n) {
    return exec_cuda_few(d) && can_multiply(d, n[0].product.matrix) &&
           can_multiply(d, n[1].product.matrix) &&
           exec_cuda_glu_packs(d->s, n[0].product.matrix, n[1].product.matrix);
}

int exec_cuda_fast_glu(struct cuda *d, const struct gr_node *n, struct err *e) {
    struct cu_products p = {.n = 1};
    TRY(glu_part(d, n, &p.part[0], e));
    return cu_products(d->q, &p, e);
}

int exec_cuda_fast_products(struct cuda *d, const struct gr_node *const *n, int n_nodes,
                            struct err *e) {
    struct cu_products p = {0};
    for (int i = 0; i < n_nodes; i++) {
        TRY(plain_part(d, n[i], &p.part[p.n++], e));
        if (i < n_nodes - 1 && exec_cuda_fuses(d, CUDA_FUSE_MANY)) continue;
        TRY(cu_products(d->q, &p, e));
        p.n = 0;
    }
    return 0;
}

bool exec_cuda_is_fast(const struct cuda *d, const struct gr_node *n) {
    return n->op == OP_MATMUL && exec_cuda_few(d) && can_multiply(d, n->product.matrix) &&
           n->dst != n->src[0];
}

/* Queues several products of the same input as one. */
int exec_cuda_fuse_products(struct cuda *d, const struct match *m, struct err *e) {
    struct cu_products p = {0};
    for (; p.n < FUSE_MAX_PRODUCTS && m->part[p.n]; p.n++)
        TRY(plain_part(d, m->part[p.n], &p.part[p.n], e));
    return cu_products(d->q, &p, e);
}

/* ---- experts ---- */

/* Inputs and outputs of the launches for a mixture-of-experts block. */
struct experts {
    const struct cu_weight *router, *gate, *up, *down;
    /* first node of the shared expert, or NULL */
    const struct gr_node *shared;
    const float *judged;
    struct cu_choice choice;
    int64_t pairs, n_used;
};

/* Queues the products of the router and of the shared expert, then the choice of experts. */
static int route(struct cuda *d, const struct experts *m, struct err *e) {
    struct cu_products p = {.n = 1};
    p.part[0] = (struct cu_term){.w = m->router,
                                 .exact = true,
                                 .x = m->judged,
                                 .n_in = d->s->n_tok,
                                 .x_div = 1,
                                 .n_sum = 1,
                                 .y = d->router,
                                 .ldy = m->router->rows};
    if (m->shared) TRY(glu_part(d, m->shared, &p.part[p.n++], e));
    TRY(cu_products(d->q, &p, e));
    return cu_route(d->q, &m->choice, d->s->n_tok, e);
}

/* Queues the gate and up products of the chosen experts. Writes 8-bit results if the down
 * projections accept them. */
static int expand(struct cuda *d, const struct gr_node *n, const struct experts *m, struct err *e) {
    const int64_t f = m->down->k;
    const bool wants = cu_part_can(m->down, false),
               q = wants && exec_cuda_fuses(d, CUDA_FUSE_QUANT);
    struct cu_products p = {.n = 1};
    p.part[0] = (struct cu_term){.w = m->gate,
                                 .up = m->up,
                                 .gated = true,
                                 .gelu = n->moe.gelu,
                                 .ids = d->expert,
                                 .n_in = m->pairs,
                                 .x_div = m->n_used,
                                 .n_sum = 1,
                                 .y = q ? NULL : d->hidden,
                                 .ldy = f,
                                 .yq = q ? d->hidden_q : NULL};
    TRY(input(d, &p.part[0], n->src[0], e));
    TRY(cu_products(d->q, &p, e));
    return q || !wants ? 0 : cu_quantize(d->q, d->hidden, f, f, m->pairs, d->hidden_q, e);
}

/* Queues an expert layer and, if matched, its shared expert as one step. */
int exec_cuda_fuse_moe(struct cuda *d, const struct match *of, struct err *e) {
    const struct gr_node *n = of->moe.moe;
    const bool exact = !fast(d, n->moe.down);
    struct experts m = {.router = mat_of(d, n->moe.router),
                        .gate = mat_of(d, n->moe.gate),
                        .up = n->moe.joined ? NULL : mat_of(d, n->moe.up),
                        .down = mat_of(d, n->moe.down),
                        .shared = of->moe.s_gate,
                        .judged = d->reg[n->src[1] == GR_NONE ? n->src[0] : n->src[1]],
                        .n_used = n->moe.n_used,
                        .pairs = d->s->n_tok * n->moe.n_used};
    m.choice =
        (struct cu_choice){.logits = d->router,
                           .factor = n->moe.factor == GR_NONE ? NULL : d->w[n->moe.factor].vec,
                           .n_experts = m.router->rows,
                           .n_used = n->moe.n_used,
                           .expert = d->expert,
                           .weight = d->p};
    TRY(route(d, &m, e));
    TRY(expand(d, n, &m, e));

    struct cu_products p = {.n = 1};
    p.part[0] = (struct cu_term){.w = m.down,
                                 .exact = exact,
                                 .x = exact ? (const void *)d->hidden : d->hidden_q,
                                 .ids = d->expert,
                                 .p = d->p,
                                 .n_in = m.pairs,
                                 .x_div = 1,
                                 .n_sum = n->moe.n_used,
                                 .y = d->reg[n->dst],
                                 .ldy = d->s->g->reg_width[n->dst]};
    if (m.shared) TRY(plain_part(d, of->moe.s_down, &p.part[p.n++], e));
    return cu_products(d->q, &p, e);
}

/* ---- the head ---- */

int exec_cuda_fast_head(struct cuda *d, gr_reg r, const float *x, bool *done, struct err *e) {
    struct session *s = d->s;
    struct cu_products p = {.n = 1};
    *done =
        s->n_tok == 1 && exec_cuda_few(d) && fast(d, s->g->output) && d->q8[r] && x == d->reg[r];
    if (!*done) return 0;
    const struct cu_weight *w = mat_of(d, s->g->output);
    p.part[0] =
        (struct cu_term){.w = w, .n_in = 1, .x_div = 1, .n_sum = 1, .y = d->logits, .ldy = w->rows};
    TRY(exec_cuda_quantized(d, r, &p.part[0].x, e));
    return cu_products(d->q, &p, e);
}
