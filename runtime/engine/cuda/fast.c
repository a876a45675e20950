// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/fast.c - few tokens, 8-bit activations: one quantized copy of a register
 * for all products that read it, and several products in a launch. Every sum has the same bits
 * whatever is fused here (bits 1, 2 and 4 of the mask of --device). */
#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/cuda/exec.h"

static struct cuda *dev(const struct session *s) {
    return s->dev;
}
static const struct cu_weight *mat(const struct session *s, gr_w w) {
    return &dev(s)->w[w].w;
}

bool exec_cuda_few(const struct session *s) {
    return !dev(s)->exact && s->n_tok <= CU_FEW && !s->probe.product && !s->probe.residual;
}
bool exec_cuda_fuses(const struct session *s, unsigned what) {
    return exec_cuda_few(s) && (dev(s)->fuse & what) != 0;
}

/* ---- quantized copies of registers ---- */

static bool can_quantize(const struct session *s, gr_reg r) {
    return dev(s)->q8[r] && exec_cuda_few(s);
}

void *exec_cuda_copy_of(struct session *s, gr_reg r) {
    struct cuda *d = dev(s);
    const bool made = can_quantize(s, r) && exec_cuda_fuses(s, CUDA_FUSE_QUANT);
    d->q8_at[r] = made ? d->turn : 0;
    return made ? d->q8[r] : NULL;
}

int exec_cuda_quantized(struct session *s, gr_reg r, const void **q, struct err *e) {
    struct cuda *d = dev(s);
    const int64_t k = s->g->reg_width[r];
    *q = d->q8[r];
    if (d->q8_at[r] && (d->fuse & CUDA_FUSE_SHARE)) return 0;
    d->q8_at[r] = d->turn;
    return cu_quantize(d->q, d->reg[r], k, k, s->n_tok, d->q8[r], e);
}

void exec_cuda_written(struct session *s, const struct gr_node *n) {
    struct cuda *d = dev(s);
    const gr_reg r[2] = {n->dst, n->dst2};
    for (int i = 0; i < 2; i++)
        if (r[i] >= 0 && r[i] < s->g->n_regs && d->q8_at[r[i]] != d->turn) d->q8_at[r[i]] = 0;
}

/* ---- products ---- */

/* Tells whether products with w take 8-bit activations on the device; otherwise they are exact. */
static bool fast(const struct session *s, gr_w w) {
    return cu_part_can(mat(s, w), false);
}
static bool can(const struct session *s, gr_w w) {
    return fast(s, w) || cu_part_can(mat(s, w), true);
}
/* Sets what enters a product of a launch: register r as it is where the product is exact, otherwise
 * its copy in 8 bits, which is made when there is none yet. */
static int input(struct session *s, struct cu_term *p, gr_reg r, struct err *e) {
    p->exact = !cu_part_can(p->w, false);
    p->x = dev(s)->reg[r];
    return p->exact ? 0 : exec_cuda_quantized(s, r, &p->x, e);
}

/* Fills p for a product with one matrix, in which each token has one input row. */
static int plain_part(struct session *s, const struct gr_node *n, struct cu_term *p,
                      struct err *e) {
    struct cuda *d = dev(s);
    *p = (struct cu_term){.w = mat(s, n->product.matrix),
                          .n_in = s->n_tok,
                          .x_div = 1,
                          .n_sum = 1,
                          .y = d->reg[n->dst],
                          .ldy = s->g->reg_width[n->dst]};
    return input(s, p, n->src[0], e);
}

/* Fills p for the three nodes from n on: the gate and up products and their activation, SwiGLU or
 * GEGLU. */
static int glu_part(struct session *s, const struct gr_node *n, struct cu_term *p, struct err *e) {
    struct cuda *d = dev(s);
    *p = (struct cu_term){.w = mat(s, n[0].product.matrix),
                          .up = mat(s, n[1].product.matrix),
                          .gated = true,
                          .gelu = n[2].op == OP_GEGLU,
                          .n_in = s->n_tok,
                          .x_div = 1,
                          .n_sum = 1,
                          .y = d->reg[n[2].dst],
                          .ldy = s->g->reg_width[n[2].dst]};
    TRY(input(s, p, n[0].src[0], e));
    p->yq = exec_cuda_copy_of(s, n[2].dst);
    return 0;
}

bool exec_cuda_is_fast_glu(const struct session *s, const struct gr_node *n) {
    return exec_cuda_few(s) && can(s, n[0].product.matrix) && can(s, n[1].product.matrix) &&
           exec_cuda_glu_packs(s, n[0].product.matrix, n[1].product.matrix);
}

int exec_cuda_fast_glu(struct session *s, const struct gr_node *n, struct err *e) {
    struct cu_products p = {.n = 1};
    TRY(glu_part(s, n, &p.part[0], e));
    return cu_products(dev(s)->q, &p, e);
}

int exec_cuda_fast_products(struct session *s, const struct gr_node *const *n, int n_nodes,
                            struct err *e) {
    struct cu_products p = {0};
    for (int i = 0; i < n_nodes; i++) {
        TRY(plain_part(s, n[i], &p.part[p.n++], e));
        if (i < n_nodes - 1 && exec_cuda_fuses(s, CUDA_FUSE_MANY)) continue;
        TRY(cu_products(dev(s)->q, &p, e));
        p.n = 0;
    }
    return 0;
}

bool exec_cuda_is_fast(const struct session *s, const struct gr_node *n) {
    return n->op == OP_MATMUL && exec_cuda_few(s) && can(s, n->product.matrix) &&
           n->dst != n->src[0];
}

int exec_cuda_fuse_products(struct session *s, const struct match *m, struct err *e) {
    struct cu_products p = {0};
    for (; p.n < FUSE_MAX_PRODUCTS && m->part[p.n]; p.n++)
        TRY(plain_part(s, m->part[p.n], &p.part[p.n], e));
    return cu_products(dev(s)->q, &p, e);
}

/* ---- experts ---- */

/* What the launches of a mixture of experts read and write. */
struct experts {
    const struct cu_weight *router, *gate, *up, *down;
    /* The first node of the shared expert, or NULL where the model has none. */
    const struct gr_node *shared;
    const float *judged;
    struct cu_choice choice;
    int64_t pairs, n_used;
};

/* Queues the products of the router and of the shared expert, then the choice of experts. */
static int route(struct session *s, const struct experts *m, struct err *e) {
    struct cuda *d = dev(s);
    struct cu_products p = {.n = 1};
    p.part[0] = (struct cu_term){.w = m->router,
                                 .exact = true,
                                 .x = m->judged,
                                 .n_in = s->n_tok,
                                 .x_div = 1,
                                 .n_sum = 1,
                                 .y = d->router,
                                 .ldy = m->router->rows};
    if (m->shared) TRY(glu_part(s, m->shared, &p.part[p.n++], e));
    TRY(cu_products(d->q, &p, e));
    return cu_route(d->q, &m->choice, s->n_tok, e);
}

/* Queues the gate and up products of the chosen experts. What they give is written in 8 bits where
 * the down projections take it so. */
static int expand(struct session *s, const struct gr_node *n, const struct experts *m,
                  struct err *e) {
    struct cuda *d = dev(s);
    const int64_t f = m->down->k;
    const bool wants = cu_part_can(m->down, false),
               q = wants && exec_cuda_fuses(s, CUDA_FUSE_QUANT);
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
    TRY(input(s, &p.part[0], n->src[0], e));
    TRY(cu_products(d->q, &p, e));
    return q || !wants ? 0 : cu_quantize(d->q, d->hidden, f, f, m->pairs, d->hidden_q, e);
}

int exec_cuda_fuse_moe(struct session *s, const struct match *of, struct err *e) {
    struct cuda *d = dev(s);
    const struct gr_node *n = of->moe.moe;
    const bool exact = !fast(s, n->moe.down);
    struct experts m = {.router = mat(s, n->moe.router),
                        .gate = mat(s, n->moe.gate),
                        .up = n->moe.joined ? NULL : mat(s, n->moe.up),
                        .down = mat(s, n->moe.down),
                        .shared = of->moe.s_gate,
                        .judged = d->reg[n->src[1] == GR_NONE ? n->src[0] : n->src[1]],
                        .n_used = n->moe.n_used,
                        .pairs = s->n_tok * n->moe.n_used};
    m.choice =
        (struct cu_choice){.logits = d->router,
                           .factor = n->moe.factor == GR_NONE ? NULL : d->w[n->moe.factor].vec,
                           .n_experts = m.router->rows,
                           .n_used = n->moe.n_used,
                           .expert = d->expert,
                           .weight = d->p};
    TRY(route(s, &m, e));
    TRY(expand(s, n, &m, e));

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
                                 .ldy = s->g->reg_width[n->dst]};
    if (m.shared) TRY(plain_part(s, of->moe.s_down, &p.part[p.n++], e));
    return cu_products(d->q, &p, e);
}

/* ---- the head ---- */

int exec_cuda_fast_head(struct session *s, gr_reg r, const float *x, bool *done, struct err *e) {
    struct cuda *d = dev(s);
    struct cu_products p = {.n = 1};
    *done =
        s->n_tok == 1 && exec_cuda_few(s) && fast(s, s->g->output) && d->q8[r] && x == d->reg[r];
    if (!*done) return 0;
    const struct cu_weight *w = mat(s, s->g->output);
    p.part[0] =
        (struct cu_term){.w = w, .n_in = 1, .x_div = 1, .n_sum = 1, .y = d->logits, .ldy = w->rows};
    TRY(exec_cuda_quantized(s, r, &p.part[0].x, e));
    return cu_products(d->q, &p, e);
}
