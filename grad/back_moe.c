// SPDX-License-Identifier: MIT
/* grad/back_moe.c - derivatives of routed experts. The choice of experts is treated as constant.
 *
 * Pairs (token, expert) are sorted by expert. One task per expert runs the expert's rows forward
 * again, then backward, in a separate part of the buffers; then each token sums its pairs in slot
 * order. The gradient of a pair's weight is dy . (the expert's output); the gradients of the
 * router's scores follow from those of the weights. */
#include <string.h>

#include "base/fp.h"
#include "base/num.h"
#include "grad/grad_int.h"

struct job {
    struct grad *g;
    const struct gr_node *n;
    const struct kept *k;
    struct grad_moe *b;
    const struct weight *gate, *up, *down;
    const float *factor, *gate_bias, *up_bias, *down_bias;
    int64_t n_experts, n_used, d, f, up_row;
};

bool can_moe(const struct graph *g, const struct gr_node *n) {
    (void)g;
    return !n->moe.scales_input && n->moe.choice.score != GR_MIXER;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* Sorts the (token, expert) pairs by expert and sets b->first to the start of each expert's
 * pairs. */
static void sort_pairs(const struct job *j) {
    struct grad_moe *b = j->b;
    const int64_t pairs = j->g->n * j->n_used;
    memset(b->first, 0, (size_t)(j->n_experts + 2) * sizeof *b->first);
    for (int64_t i = 0; i < pairs; i++) b->first[j->k->expert[i] + 2]++;
    for (int64_t e = 0; e < j->n_experts; e++) b->first[e + 1] += b->first[e];
    for (int64_t i = 0; i < pairs; i++) {
        const int32_t at = b->first[j->k->expert[i] + 1]++;
        b->place[i] = at;
        b->token[at] = (int32_t)(i / j->n_used);
        b->weight[at] = j->k->weight[i];
    }
}

/* ---- an expert ------------------------------------------------------------------------------- */

/* Computes the activation h of a row from gate and up. */
static void activate(const struct gr_moe *m, const float *gate, const float *up, float *h,
                     int64_t n) {
    const float top = m->limit;
    for (int64_t i = 0; i < n; i++) {
        const float a = gate[i], u = up[i];
        if (m->relu2)
            h[i] = a > 0 ? a * a : 0;
        else if (m->gelu)
            h[i] = gelu_of(a) * u;
        else if (!(top > 0))
            h[i] = a * fp_sigmoidf(a) * u;
        else if (m->late)
            h[i] = fminf(a * fp_sigmoidf(a), top) * fmaxf(-top, fminf(u, top));
        else
            h[i] = fminf(a, top) * fp_sigmoidf(m->alpha * fminf(a, top)) *
                   (fmaxf(-top, fminf(u, top)) + 1);
    }
}
/* Converts dh, the gradient of n activated values, to the gradients of gate and up. */
static void activate_back(const struct gr_moe *m, const float *gate, const float *up,
                          const float *dh, float *dgate, float *dup, int64_t n) {
    const float top = m->limit;
    for (int64_t i = 0; i < n; i++) {
        const float a = gate[i], u = up[i], s = fp_sigmoidf(a), d = dh[i];
        const float cut = fmaxf(-top, fminf(u, top));
        dup[i] = 0;
        if (m->relu2) {
            dgate[i] = d * (a > 0 ? 2 * a : 0);
        } else if (m->gelu) {
            dgate[i] = d * u * grad_gelu(a);
            dup[i] = d * gelu_of(a);
        } else if (!(top > 0)) {
            dgate[i] = d * u * grad_silu(a);
            dup[i] = d * a * s;
        } else if (m->late) {
            dgate[i] = a * s < top ? d * cut * grad_silu(a) : 0;
            dup[i] = fabsf(u) < top ? d * fminf(a * s, top) : 0;
        } else {
            const float c = fminf(a, top), sc = fp_sigmoidf(m->alpha * c);
            dgate[i] = a < top ? d * (cut + 1) * (sc + m->alpha * c * sc * (1 - sc)) : 0;
            dup[i] = fabsf(u) < top ? d * c * sc : 0;
        }
    }
}

/* Adds the bias of expert e to each row; bias may be NULL. */
static void add_bias(const float *bias, int64_t e, int64_t width, float *x, int64_t rows) {
    for (int64_t r = 0; bias && r < rows; r++)
        for (int64_t i = 0; i < width; i++) x[r * width + i] += bias[e * width + i];
}
/* Returns the data of expert e's matrix. */
static const uint8_t *matrix_of(const struct weight *w, int64_t e) {
    return (const uint8_t *)w->data + (uint64_t)e * w->mat_bytes;
}

/* Recomputes the outputs of expert e for its m rows starting at r0. */
static void expert_forward(const struct job *j, int64_t e, int64_t r0, int64_t m, float *scratch) {
    const struct grad_moe *b = j->b;
    float *gate = b->gate + r0 * j->f, *up = b->up + r0 * j->f;
    for (int64_t r = r0; r < r0 + m; r++)
        memcpy(b->x + r * j->d, j->k->src[0] + b->token[r] * j->d, (size_t)j->d * sizeof(float));
    grad_rows(j->g, j->gate, matrix_of(j->gate, e), 0, j->f, b->x + r0 * j->d, j->d, gate, j->f, m,
              scratch);
    if (!j->n->moe.relu2)
        grad_rows(j->g, j->up, matrix_of(j->up, e), j->up_row, j->up_row + j->f, b->x + r0 * j->d,
                  j->d, up, j->f, m, scratch);
    add_bias(j->gate_bias, e, j->f, gate, m);
    add_bias(j->up_bias, e, j->f, up, m);
    for (int64_t r = 0; r < m; r++)
        activate(&j->n->moe, gate + r * j->f, up + r * j->f, b->h + (r0 + r) * j->f, j->f);
    grad_rows(j->g, j->down, matrix_of(j->down, e), 0, j->d, b->h + r0 * j->f, j->f,
              b->y + r0 * j->d, j->d, m, scratch);
    add_bias(j->down_bias, e, j->d, b->y + r0 * j->d, m);
}

/* Computes the gradients of expert e for its m rows starting at r0. */
static void expert_back(const struct job *j, int64_t e, int64_t r0, int64_t m, float *scratch) {
    const struct grad_moe *b = j->b;
    const float *all = j->g->taken[0];
    float *dh = b->y; /* y is no longer needed: reuse its rows */
    for (int64_t r = r0; r < r0 + m; r++) {
        const float *dy = all + b->token[r] * j->d;
        b->dweight[r] = j->g->s->kern.dot_f32(dy, b->y + r * j->d, j->d);
        for (int64_t i = 0; i < j->d; i++) b->dy[r * j->d + i] = b->weight[r] * dy[i];
    }
    if (j->f > j->d) dh = b->dup;
    const int64_t ld = j->f > j->d ? j->f : j->d;
    for (int64_t r = r0; r < r0 + m; r++) memset(dh + r * ld, 0, (size_t)j->f * sizeof *dh);
    grad_rows_back(j->g, j->down, matrix_of(j->down, e), 0, j->d, b->dy + r0 * j->d, j->d,
                   dh + r0 * ld, ld, m, scratch);
    for (int64_t r = r0; r < r0 + m; r++)
        activate_back(&j->n->moe, b->gate + r * j->f, b->up + r * j->f, dh + r * ld,
                      b->dgate + r * j->f, b->dup + r * j->f, j->f);
    memset(b->dx + r0 * j->d, 0, (size_t)(m * j->d) * sizeof *b->dx);
    grad_rows_back(j->g, j->gate, matrix_of(j->gate, e), 0, j->f, b->dgate + r0 * j->f, j->f,
                   b->dx + r0 * j->d, j->d, m, scratch);
    if (!j->n->moe.relu2)
        grad_rows_back(j->g, j->up, matrix_of(j->up, e), j->up_row, j->up_row + j->f,
                       b->dup + r0 * j->f, j->f, b->dx + r0 * j->d, j->d, m, scratch);
}

/* Runs experts e0 to e1 - 1 forward and back; a pool_fn. */
static void experts_range(void *ctx, int64_t e0, int64_t e1, int worker) {
    const struct job *j = ctx;
    for (int64_t e = e0; e < e1; e++) {
        const int64_t r0 = j->b->first[e], m = j->b->first[e + 1] - r0;
        if (!m) continue;
        expert_forward(j, e, r0, m, j->g->scratch[worker]);
        expert_back(j, e, r0, m, j->g->scratch[worker]);
    }
}

/* ---- the router ------------------------------------------------------------------------------ */

/* Computes the gradients dx [n_experts] of a token's router logits from the gradients of its
 * weights. */
static void router_back(const struct job *j, int64_t t, float *dx) {
    const struct gr_choice *c = &j->n->moe.choice;
    const int32_t *expert = j->k->expert + t * j->n_used, *place = j->b->place + t * j->n_used;
    const float *p = j->k->score + t * j->n_experts, *weight = j->k->weight + t * j->n_used;
    double sum = 0, dot = 0, all = 0;
    memset(dx, 0, (size_t)j->n_experts * sizeof *dx);
    if (c->score == GR_LOGIT) { /* weights: softmax over the chosen experts, times `by` */
        double dots = 0;
        for (int64_t u = 0; u < j->n_used; u++) {
            const double by = (c->scale > 0 ? (double)c->scale : 1) *
                              (j->factor ? (double)j->factor[expert[u]] : 1);
            const double share = by != 0 ? (double)weight[u] / by : 0;
            dots += (double)j->b->dweight[place[u]] * by * share;
        }
        for (int64_t u = 0; u < j->n_used; u++) {
            const double by = (c->scale > 0 ? (double)c->scale : 1) *
                              (j->factor ? (double)j->factor[expert[u]] : 1);
            const double share = by != 0 ? (double)weight[u] / by : 0;
            dx[expert[u]] = (float)(share * ((double)j->b->dweight[place[u]] * by - dots));
        }
        return;
    }
    for (int64_t u = 0; u < j->n_used; u++) sum += (double)p[expert[u]];
    for (int64_t u = 0; u < j->n_used; u++) {
        double d = (double)j->b->dweight[place[u]] * (c->scale > 0 ? (double)c->scale : 1);
        if (j->factor) d *= (double)j->factor[expert[u]];
        dx[expert[u]] = (float)d;
        dot += d * (double)p[expert[u]];
    }
    for (int64_t u = 0; u < j->n_used && !c->keep; u++) /* weight = p / sum */
        dx[expert[u]] = (float)(((double)dx[expert[u]] - dot / sum) / sum);
    for (int64_t e = 0; e < j->n_experts; e++) all += (double)dx[e] * (double)p[e];
    for (int64_t e = 0; e < j->n_experts; e++)
        dx[e] = c->score == GR_SOFTMAX ? p[e] * (dx[e] - (float)all) : dx[e] * p[e] * (1 - p[e]);
}
/* Adds the experts' input gradients to tokens t0 to t1 - 1. */
static void tokens_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        float *dx = j->g->reg[j->n->src[0]] + t * j->d;
        for (int64_t u = 0; u < j->n_used; u++)
            j->g->s->kern.axpy(dx, j->b->dx + j->b->place[t * j->n_used + u] * j->d, 1, j->d);
        router_back(j, t, j->b->score + t * j->n_experts);
    }
}

/* ---- the operation --------------------------------------------------------------------------- */

/* Interleaves the gradients of gate and up like the rows of their shared tensor. */
static void interleave(const struct job *j) {
    const size_t bytes = (size_t)j->f * sizeof(float);
    for (int64_t r = 0; r < j->g->n * j->n_used; r++) {
        memcpy(j->b->both + r * 2 * j->f, j->b->dgate + r * j->f, bytes);
        memcpy(j->b->both + r * 2 * j->f + j->f, j->b->dup + r * j->f, bytes);
    }
}

/* Shows the observer the inputs and output gradients of each expert's matrices. */
static void show_products(const struct job *j) {
    struct grad *g = j->g;
    const struct gr_moe *m = &j->n->moe;
    const int64_t ld = m->joined ? 2 * j->f : j->f;
    const float *first = m->joined ? j->b->both : j->b->dgate;
    if (m->joined && g->see) interleave(j);
    for (int64_t e = 0; e < j->n_experts && g->see; e++) {
        const int64_t r = j->b->first[e], n = j->b->first[e + 1] - r;
        const float *x = j->b->x + r * j->d;
        if (!n) continue;
        g->see(g->see_ud, &g->g->weight[m->down], e, j->b->h + r * j->f, j->f, j->b->dy + r * j->d,
               j->d, n);
        if (m->up != GR_NONE)
            g->see(g->see_ud, &g->g->weight[m->up], e, x, j->d, j->b->dup + r * j->f, j->f, n);
        g->see(g->see_ud, &g->g->weight[m->gate], e, x, j->d, first + r * ld, ld, n);
    }
}

/* Returns the weight's values, NULL for GR_NONE. */
static const float *vec_of(const struct grad *g, gr_w w) {
    return w == GR_NONE ? NULL : exec_vec(g->s, w);
}

/* Adds the gradients of the inputs of an expert layer. */
void back_moe(struct grad *g, const struct gr_node *n, const struct kept *k) {
    const struct gr_moe *m = &n->moe;
    const struct weight *router = model_weight(g->m, m->router);
    struct job j = {.g = g,
                    .n = n,
                    .k = k,
                    .b = &g->moe,
                    .gate = model_weight(g->m, m->gate),
                    .up = model_weight(g->m, m->up == GR_NONE ? m->gate : m->up),
                    .down = model_weight(g->m, m->down),
                    .factor = vec_of(g, m->factor),
                    .gate_bias = vec_of(g, m->gate_bias),
                    .up_bias = vec_of(g, m->up_bias),
                    .down_bias = vec_of(g, m->down_bias),
                    .n_experts = router->ne[1],
                    .n_used = m->n_used,
                    .d = model_weight(g->m, m->gate)->ne[0]};
    j.f = j.down->ne[0];
    j.up_row = m->joined ? j.f : 0;
    sort_pairs(&j);
    grad_take(g, n->dst, 0);
    pool_for(g->pool, j.n_experts, 1, experts_range, &j);
    show_products(&j);
    grad_tokens(g, tokens_range, &j);
    const gr_reg judged = n->src[1] == GR_NONE ? n->src[0] : n->src[1];
    grad_product(g, router, j.b->score, g->reg[judged], g->n);
}
