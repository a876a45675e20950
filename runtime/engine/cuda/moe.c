// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/moe.c - routed experts on a device: router (always exact), choice of experts,
 * gate and up of all chosen experts, down with the weighted sum. Expert ids stay on the device,
 * except for an observer, which receives rows sorted by expert in the CPU's order. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/cuda/exec.h"

/* The experts chosen in a pass, for an observer. */
struct seen {
    /* chosen experts in main memory, owned; NULL: not fetched yet */
    int32_t *expert;
    float *gate; /* weights of the pairs, likewise */
    int64_t n_pairs, n_used, n_experts;
};

/* Returns the sizes of what an observer of the node's experts sees. */
static struct seen seen_of(const struct session *s, const struct gr_node *n) {
    return (struct seen){.n_pairs = s->n_tok * n->moe.n_used,
                         .n_used = n->moe.n_used,
                         .n_experts = s->g->weight[n->moe.router].ne[1]};
}

/* Copies the chosen experts and their weights to main memory; free with seen_release(). */
static int fetch_experts(struct cuda *d, struct seen *v, struct err *e) {
    float *raw = NULL;
    TRY(exec_cuda_fetch(d, (const float *)(const void *)d->expert, v->n_pairs, &raw, e));
    v->expert = (int32_t *)(void *)raw;
    return exec_cuda_fetch(d, d->p, v->n_pairs, &v->gate, e);
}
static void seen_release(struct seen *v) {
    mem_free(v->expert);
    mem_free(v->gate);
}

/* Shows the rows of x to the observer, sorted by expert. Pair i of a token and an expert reads row
 * i / per_row. gated: the products are multiplied by the pairs' weights later. */
static int show_pairs(struct cuda *d, const struct seen *v, gr_w w, const float *src,
                      int64_t per_row, int64_t ld, bool gated, struct err *e) {
    float *x = NULL;
    void *sorted = NULL;
    if (d->sums) return exec_cuda_sum_pairs(d, w, src, v->n_used, v->n_experts, per_row, ld, e);
    TRY(exec_cuda_fetch(d, src, v->n_pairs / per_row * ld, &x, e));
    int32_t *token = xcalloc((size_t)v->n_pairs, sizeof *token);
    float *gate = xcalloc((size_t)v->n_pairs, sizeof *gate);
    int rc = mem_alloc(&sorted, (uint64_t)(v->n_pairs * ld) * sizeof(float), "expert rows", e);
    for (int64_t k = 0; k < v->n_experts && !rc; k++) {
        float *to = sorted;
        int64_t n = 0;
        for (int64_t i = 0; i < v->n_pairs; i++)
            if (v->expert[i] == k) {
                memcpy(to + n * ld, x + i / per_row * ld, (size_t)ld * sizeof *x);
                gate[n] = v->gate[i];
                token[n++] = (int32_t)(i / v->n_used);
            }
        exec_show_expert(d->s, w, k, to, n, ld, token, gated ? gate : NULL);
    }
    free(gate);
    free(token);
    mem_free(sorted);
    mem_free(x);
    return rc;
}

/* Shows observers the input of the gate and up products and the chosen experts. */
static int observe_choice(struct cuda *d, const struct gr_node *n, struct err *e) {
    struct session *s = d->s;
    const int64_t ld = s->g->reg_width[n->src[0]];
    struct seen v = seen_of(s, n);
    int rc = 0;
    if (!s->probe.product && !s->probe.route) return 0;
    if (!d->sums || s->probe.route) TRY(fetch_experts(d, &v, e));
    exec_show_route(s, n, v.expert);
    if (s->probe.product)
        rc = show_pairs(d, &v, n->moe.gate, d->reg[n->src[0]], n->moe.n_used, ld, true, e);
    /* Gate and up have the same input rows, so their sums are shared. */
    if (!rc && s->probe.product && n->moe.up != GR_NONE && !d->sums)
        rc = show_pairs(d, &v, n->moe.up, d->reg[n->src[0]], n->moe.n_used, ld, true, e);
    seen_release(&v);
    return rc;
}

/* Shows the observer the input of the down product. */
static int observe_hidden(struct cuda *d, const struct gr_node *n, struct err *e) {
    struct seen v = seen_of(d->s, n);
    if (!d->s->probe.product) return 0;
    if (!d->sums) TRY(fetch_experts(d, &v, e));
    const int rc = show_pairs(d, &v, n->moe.down, d->hidden, 1, d->w[n->moe.down].w.k,
                              !n->moe.scales_input, e);
    seen_release(&v);
    return rc;
}

bool exec_cuda_glu_packs(const struct session *s, gr_w gate, gr_w up) {
    const struct weight *w = model_weight(s->m, gate);
    const struct cu_weight shape = exec_cuda_shape(w);
    if (up != GR_NONE) return w->type == model_weight(s->m, up)->type;
    return w->ne[1] / 2 % 16 == 0 || !cu_packed_bytes(&shape);
}

/* Returns the device's copy of a weight vector; NULL for GR_NONE. */
static const float *values_of(const struct cuda *d, gr_w w) {
    return w == GR_NONE ? NULL : d->w[w].vec;
}

bool exec_cuda_glu_is_whole(const struct gr_moe *m) {
    return !m->relu2 && !(m->limit > 0) && !m->scales_input && m->gate_bias == GR_NONE &&
           m->up_bias == GR_NONE;
}

/* Returns whether the device supports these experts. Gate and up in one tensor are supported only
 * for plain experts: no model combines that with another form. */
bool exec_cuda_has_experts(const struct gr_moe *m) {
    return !m->joined || exec_cuda_glu_is_whole(m);
}

/* Queues gate and up as separate products, followed by the activation, for experts with biases or a
 * clamped activation. */
static int expand_apart(struct cuda *d, const struct gr_node *n, const struct cu_weight *gate,
                        const struct cu_weight *up, struct err *e) {
    struct session *s = d->s;
    const struct gr_moe *m = &n->moe;
    const float *x = d->reg[n->src[0]];
    const struct cu_moe_act a = {.h = d->hidden,
                                 .up = d->hidden_up,
                                 .gate_bias = values_of(d, m->gate_bias),
                                 .up_bias = values_of(d, m->up_bias),
                                 .p = m->scales_input ? d->p : NULL,
                                 .ids = d->expert,
                                 .n_pairs = s->n_tok * m->n_used,
                                 .n = gate->rows,
                                 .alpha = m->alpha,
                                 .limit = m->limit,
                                 .late = m->late,
                                 .gelu = m->gelu};
    TRY(cu_moe_rows(d->q, gate, x, gate->k, s->n_tok, d->expert, m->n_used, d->hidden, d->exact,
                    e));
    TRY(cu_moe_rows(d->q, up, x, up->k, s->n_tok, d->expert, m->n_used, d->hidden_up, d->exact, e));
    return cu_moe_act(d->q, &a, e);
}

/* Queues experts without a gate: one product, then its activation. */
static int expand_ungated(struct cuda *d, const struct gr_node *n, const struct cu_weight *up,
                          struct err *e) {
    const struct cu_xielu none = {0};
    TRY(cu_moe_rows(d->q, up, d->reg[n->src[0]], up->k, d->s->n_tok, d->expert, n->moe.n_used,
                    d->hidden, d->exact, e));
    return cu_act_rows(d->q, d->hidden, up->rows, NULL, 0, d->hidden, d->s->n_tok * n->moe.n_used,
                       up->rows, CU_ACT_RELU2, none, e);
}

/* Queues the gate and up products of the chosen experts and their activation, into d->hidden. */
static int expand(struct cuda *d, const struct gr_node *n, struct err *e) {
    const struct cu_weight *gate = &d->w[n->moe.gate].w;
    const struct cu_weight *up = n->moe.up == GR_NONE ? NULL : &d->w[n->moe.up].w;
    TRY(observe_choice(d, n, e));
    if (n->moe.relu2) return expand_ungated(d, n, gate, e);
    if (!exec_cuda_glu_is_whole(&n->moe)) return expand_apart(d, n, gate, up, e);
    return cu_glu(d->q, gate, up, d->reg[n->src[0]], gate->k, d->s->n_tok, d->expert, n->moe.n_used,
                  n->moe.gelu, d->hidden, d->exact, e);
}

/* Queues the down products of the chosen experts and their weighted sum. */
static int contract(struct cuda *d, const struct gr_node *n, struct err *e) {
    struct session *s = d->s;
    const struct cu_weight *down = &d->w[n->moe.down].w;
    TRY(observe_hidden(d, n, e));
    TRY(cu_moe_down(d->q, down, d->hidden, s->n_tok, d->expert, n->moe.scales_input ? NULL : d->p,
                    n->moe.n_used, d->reg[n->dst], s->g->reg_width[n->dst], d->exact, e));
    if (n->moe.down_bias == GR_NONE) return 0;
    return cu_moe_bias(d->q, d->reg[n->dst], s->g->reg_width[n->dst],
                       values_of(d, n->moe.down_bias), d->expert, d->p, s->n_tok, n->moe.n_used,
                       s->g->reg_width[n->dst], e);
}

/* Queues the router and the choice of experts. */
static int choose(struct cuda *d, const struct gr_node *n, struct err *e) {
    struct session *s = d->s;
    const struct cu_weight *router = &d->w[n->moe.router].w;
    const float *judged = d->reg[n->src[1] == GR_NONE ? n->src[0] : n->src[1]];
    const float *factor = values_of(d, n->moe.factor);
    TRY(exec_cuda_show(d, n->moe.router, judged, s->n_tok, router->k, e));
    TRY(cu_router(d->q, router, judged, s->n_tok, d->router, !d->exact, e));
    static const int score[] = {[GR_SOFTMAX] = CU_SCORE_SOFTMAX,
                                [GR_SIGMOID] = CU_SCORE_SIGMOID,
                                [GR_LOGIT] = CU_SCORE_LOGIT,
                                [GR_MIXER] = CU_SCORE_MIXER};
    const struct gr_choice *r = &n->moe.choice;
    const struct cu_choice c = {.logits = d->router,
                                .factor = factor,
                                .n_experts = router->rows,
                                .n_used = n->moe.n_used,
                                .expert = d->expert,
                                .weight = d->p,
                                .score = score[r->score],
                                .keep = r->keep,
                                .scale = r->scale,
                                .prefer = values_of(d, n->moe.prefer),
                                .bias = values_of(d, n->moe.router_bias),
                                .groups = r->groups,
                                .top = r->top,
                                .margin = r->margin};
    return cu_route(d->q, &c, s->n_tok, e);
}

int exec_cuda_moe_part(struct cuda *d, const struct gr_node *n, enum step_part part,
                       struct err *e) {
    static int (*const of[])(struct cuda *, const struct gr_node *, struct err *) = {
        [PART_CHOOSE] = choose, [PART_EXPAND] = expand, [PART_CONTRACT] = contract};
    return of[part](d, n, e);
}

int exec_cuda_moe(struct cuda *d, const struct gr_node *n, struct err *e) {
    TRY(choose(d, n, e));
    TRY(expand(d, n, e));
    return contract(d, n, e);
}
