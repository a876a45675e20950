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
    const struct gr_moe *m = &n->moe;
    (void)g;
    if (m->scales_input)
        return m->choice.score == GR_SIGMOID && m->choice.keep && m->router_bias == GR_NONE;
    return m->choice.score != GR_MIXER || m->choice.keep;
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
    for (int64_t r = r0; r < r0 + m; r++) {
        float *x = b->x + r * j->d;
        memcpy(x, j->k->src[0] + b->token[r] * j->d, (size_t)j->d * sizeof *x);
        for (int64_t i = 0; j->n->moe.scales_input && i < j->d; i++) x[i] *= b->weight[r];
    }
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

/* Converts the gradients dx of m scaled inputs, from row r0 on, to those of the inputs and of their
 * weights. */
static void scaled_back(const struct job *j, int64_t r0, int64_t m) {
    const struct grad_moe *b = j->b;
    for (int64_t r = r0; r < r0 + m; r++) {
        float *dx = b->dx + r * j->d;
        b->dweight[r] = j->g->s->kern.dot_f32(dx, j->k->src[0] + b->token[r] * j->d, j->d);
        for (int64_t i = 0; i < j->d; i++) dx[i] *= b->weight[r];
    }
}
/* Computes the gradients of expert e for its m rows starting at r0. */
static void expert_back(const struct job *j, int64_t e, int64_t r0, int64_t m, float *scratch) {
    const struct grad_moe *b = j->b;
    const float *all = j->g->taken[0];
    const bool in = j->n->moe.scales_input;
    float *dh = b->y; /* y is no longer needed: reuse its rows */
    for (int64_t r = r0; r < r0 + m; r++) {
        const float *dy = all + b->token[r] * j->d, by = in ? 1 : b->weight[r];
        b->dweight[r] = j->g->s->kern.dot_f32(dy, b->y + r * j->d, j->d);
        for (int64_t i = 0; i < j->d; i++) b->dy[r * j->d + i] = by * dy[i];
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
    if (in) scaled_back(j, r0, m);
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

/* Returns the gradient of the u-th chosen expert's weight at token t before it is multiplied by the
 * choice's scale and the expert's factor. */
static double share_back(const struct job *j, int64_t t, int64_t u) {
    const struct gr_choice *c = &j->n->moe.choice;
    const int64_t i = t * j->n_used + u;
    const double d = (double)j->b->dweight[j->b->place[i]] * (c->scale > 0 ? (double)c->scale : 1);
    return j->factor ? d * (double)j->factor[j->k->expert[i]] : d;
}

/* Computes the gradients of logits whose softmax over the chosen experts gives the weights. */
static void chosen_back(const struct job *j, int64_t t, float *dx) {
    const struct gr_choice *c = &j->n->moe.choice;
    const int32_t *expert = j->k->expert + t * j->n_used, *place = j->b->place + t * j->n_used;
    const float *weight = j->k->weight + t * j->n_used;
    double dots = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t u = 0; u < j->n_used; u++) {
            const double by = (c->scale > 0 ? (double)c->scale : 1) *
                              (j->factor ? (double)j->factor[expert[u]] : 1);
            const double share = by != 0 ? (double)weight[u] / by : 0;
            const double d = (double)j->b->dweight[place[u]] * by;
            if (!pass)
                dots += d * share;
            else
                dx[expert[u]] = (float)(share * (d - dots));
        }
}

/* Returns whether GR_MIXER's softmax for the u-th chosen expert includes expert e: it was not
 * chosen before, and its logit is within the margin. */
static bool is_mixed(const struct job *j, const float *x, const int32_t *expert, int64_t u,
                     int64_t e) {
    const float top = x[expert[u]];
    for (int64_t i = 0; i < u; i++)
        if (expert[i] == e) return false;
    return !((top - x[e]) / fmaxf(fabsf(x[e]), top) > j->n->moe.choice.margin);
}
/* Computes the gradients of logits x for GR_MIXER. */
static void mixer_back(const struct job *j, int64_t t, const float *x, float *dx) {
    const int32_t *expert = j->k->expert + t * j->n_used;
    for (int64_t u = 0; u < j->n_used; u++) {
        const double top = (double)x[expert[u]], d = share_back(j, t, u);
        double sum = 0;
        for (int64_t e = 0; e < j->n_experts; e++)
            if (is_mixed(j, x, expert, u, e)) sum += fp_exp((double)x[e] - top);
        for (int64_t e = 0; e < j->n_experts; e++)
            if (is_mixed(j, x, expert, u, e))
                dx[e] += (float)(d / sum * ((e == expert[u]) - fp_exp((double)x[e] - top) / sum));
    }
}

/* Computes the gradients of logits whose scores p, divided by the sum of those chosen or not, are
 * the weights. */
static void scores_back(const struct job *j, int64_t t, const float *p, float *dx) {
    const struct gr_choice *c = &j->n->moe.choice;
    const int32_t *expert = j->k->expert + t * j->n_used;
    double sum = 0, dot = 0, all = 0;
    for (int64_t u = 0; u < j->n_used; u++) {
        const double d = share_back(j, t, u);
        sum += (double)p[expert[u]];
        dx[expert[u]] = (float)d;
        dot += d * (double)p[expert[u]];
    }
    for (int64_t u = 0; u < j->n_used && !c->keep; u++) /* weight = p / sum */
        dx[expert[u]] = (float)(((double)dx[expert[u]] - dot / sum) / sum);
    for (int64_t e = 0; e < j->n_experts; e++) all += (double)dx[e] * (double)p[e];
    for (int64_t e = 0; e < j->n_experts; e++)
        dx[e] = c->score == GR_SOFTMAX ? p[e] * (dx[e] - (float)all) : dx[e] * p[e] * (1 - p[e]);
}

/* Computes the gradients dx [n_experts] of a token's router logits from the gradients of its
 * weights. */
static void router_back(const struct job *j, int64_t t, float *dx) {
    const float *score = j->k->score + t * j->n_experts;
    memset(dx, 0, (size_t)j->n_experts * sizeof *dx);
    if (j->n->moe.choice.score == GR_LOGIT)
        chosen_back(j, t, dx);
    else if (j->n->moe.choice.score == GR_MIXER)
        mixer_back(j, t, score, dx);
    else
        scores_back(j, t, score, dx);
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
        g->seen_tokens = j->b->token + r;
        g->see(g->see_ud, &g->g->weight[m->down], e, j->b->h + r * j->f, j->f, j->b->dy + r * j->d,
               j->d, n);
        if (m->up != GR_NONE)
            g->see(g->see_ud, &g->g->weight[m->up], e, x, j->d, j->b->dup + r * j->f, j->f, n);
        g->see(g->see_ud, &g->g->weight[m->gate], e, x, j->d, first + r * ld, ld, n);
    }
    g->seen_tokens = NULL;
}

/* Returns the weight's values, NULL for GR_NONE. */
static const float *vec_of(const struct grad *g, gr_w w) {
    return w == GR_NONE ? NULL : exec_vec(g->s, w);
}

/* Computes the scores and the weights of inputs that the router scales; the forward pass reuses
 * their memory. */
static void restore_weights(const struct job *j, const struct weight *router, const float *judged) {
    const struct gr_choice *c = &j->n->moe.choice;
    const int64_t n = j->g->n, e = j->n_experts;
    grad_rows(j->g, router, router->data, 0, e, judged, router->ne[0], j->k->score, e, n,
              j->g->scratch[0]);
    for (int64_t i = 0; i < n * e; i++) j->k->score[i] = fp_sigmoidf(j->k->score[i]);
    for (int64_t i = 0; i < n * j->n_used; i++) {
        const int32_t x = j->k->expert[i];
        j->k->weight[i] = j->k->score[i / j->n_used * e + x] * (c->scale > 0 ? c->scale : 1) *
                          (j->factor ? j->factor[x] : 1);
    }
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
    const int at = n->src[1] == GR_NONE ? 0 : 1; /* source that the router reads */
    if (m->scales_input) restore_weights(&j, router, k->src[at]);
    sort_pairs(&j);
    grad_take(g, n->dst, 0);
    pool_for(g->pool, j.n_experts, 1, experts_range, &j);
    show_products(&j);
    grad_tokens(g, tokens_range, &j);
    grad_product(g, router, j.b->score, g->reg[n->src[at]], g->n);
}
