// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/moe.c - routed experts.
 *
 * The router runs in f32 and picks the top n_used experts per token (ties: lower index); their
 * weights are renormalized. A counting sort orders the (token, slot) pairs by expert, so that each
 * expert's rows are one matrix. Phase 1, one task per (expert, panel of rows): gate and up, then
 * SwiGLU. Phase 2, one task per (expert, panel): down. Finally each token adds up its slots in slot
 * order, so results are bit-identical for any number of threads. */
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "base/num.h"
#include "runtime/engine/exec.h"

/* Lower bound for the sum by which expert weights are divided: the smallest normal f16, as in
 * llama.cpp. */
static const float MIN_SUM = 6.1035e-5f;
enum { ROUTER_MAX_GROUPS = 256 };

struct job {
    struct session *s;
    const struct gr_node *n;
    struct moe_bufs *b;
    const struct weight *gate, *up, *down;
    const float *x; /* [n_tok][d] */
    /* Each may be NULL. */
    const float *factor, *prefer, *router_bias, *gate_bias, *up_bias, *down_bias;
    int64_t n_experts, d, f, n_used, n_active;
    /* First row of the up projection in `up`: f, the width, if gate and up are one tensor, else
     * 0. */
    int64_t up_row;
    /* Rows per panel and number of panels in the current phase. */
    int64_t panel, n_panels;
    /* Sorted rows, prepared as inputs: `a` of gate and later of down, `a_up` of up. */
    struct acts a, a_up;
    /* Rows of the n_tok tokens in 8 bits, which gather_rounded copies to `sorted`. */
    const struct kern_act *rounded;
    struct kern_act *sorted;
    int64_t row_blocks;
};

/* Turns the router's scores p of one token into probabilities of the experts, in place, and writes
 * the values that rank them to `by`. Formulas: OP_MOE in models/ops.def. */
static void score_experts(const struct job *j, float *p, float *by) {
    const enum gr_score score = j->n->moe.choice.score;
    const float *prefer = j->prefer, *bias = j->router_bias;
    for (int64_t e = 0; bias && e < j->n_experts; e++) p[e] += bias[e];
    if (score == GR_SOFTMAX) j->s->kern.softmax(p, j->n_experts);
    for (int64_t e = 0; score == GR_SIGMOID && e < j->n_experts; e++)
        p[e] = (float)(1 / (1 + fp_exp(-(double)p[e])));
    for (int64_t e = 0; e < j->n_experts; e++) by[e] = prefer ? p[e] + prefer[e] : p[e];
}

/* Excludes experts outside the best groups. A group ranks by the sum of its two best experts or,
 * with a softmax, by its best one. */
static void keep_groups(const struct job *j, float *by) {
    const int64_t n = j->n->moe.choice.groups, size = j->n_experts / n;
    const bool two = size > 1 && j->n->moe.choice.score != GR_SOFTMAX;
    bool kept[ROUTER_MAX_GROUPS] = {false};
    for (int64_t k = 0; k < j->n->moe.choice.top; k++) {
        int64_t best = -1;
        double most = 0;
        for (int64_t g = 0; g < n; g++) {
            float a = -INFINITY, b = -INFINITY; /* two largest values of the group */
            for (int64_t e = g * size; e < (g + 1) * size; e++) {
                b = fmaxf(b, fminf(a, by[e]));
                a = fmaxf(a, by[e]);
            }
            const double sum = (double)a + (two ? (double)b : 0);
            if (!kept[g] && (best < 0 || sum > most)) {
                best = g;
                most = sum;
            }
        }
        kept[best] = true;
    }
    for (int64_t e = 0; e < n * size; e++)
        if (!kept[e / size]) by[e] = -INFINITY;
}

/* Returns the weight of expert `best` in a softmax over the experts that have not been taken yet
 * and are within the margin of it (GR_MIXER). */
static float mixed(const struct job *j, const float *x, const float *by, int64_t best) {
    const float margin = j->n->moe.choice.margin, top = x[best];
    double sum = 0;
    for (int64_t e = 0; e < j->n_experts; e++)
        if (by[e] != -INFINITY && !((top - x[e]) / fmaxf(fabsf(x[e]), top) > margin))
            sum += fp_exp((double)x[e] - (double)top);
    return (float)(1 / sum);
}

/* Chooses the experts of token t and stores their indices and weights. */
static void choose_experts(const struct job *j, int64_t t) {
    const struct gr_choice *r = &j->n->moe.choice;
    float *p = j->b->logits + t * 2 * j->n_experts, *by = p + j->n_experts;
    float *weight = j->b->weight + t * j->n_used, sum = 0;
    int32_t *expert = j->b->expert + t * j->n_used;
    score_experts(j, p, by);
    if (r->groups > 0) keep_groups(j, by);
    for (int64_t u = 0; u < j->n_used; u++) {
        int64_t best = -1;
        for (int64_t e = 0; e < j->n_experts; e++)
            if (by[e] != -INFINITY && (best < 0 || by[e] > by[best])) best = e;
        if (best < 0) best = u;
        expert[u] = (int32_t)best;
        weight[u] = r->score == GR_MIXER ? mixed(j, p, by, best) : p[best];
        by[best] = -INFINITY; /* taken */
    }
    if (r->score == GR_LOGIT) j->s->kern.softmax(weight, j->n_used);
    for (int64_t u = 0; u < j->n_used; u++) sum += weight[u];
    if (!(sum > MIN_SUM)) sum = MIN_SUM;
    for (int64_t u = 0; u < j->n_used; u++) {
        if (!r->keep) weight[u] /= sum;
        if (r->scale > 0) weight[u] *= r->scale;
        if (j->factor) weight[u] *= j->factor[expert[u]];
    }
}
/* Chooses the experts of tokens t0 to t1 - 1; a pool_fn. */
static void choose_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    (void)worker;
    for (int64_t t = t0; t < t1; t++) choose_experts(ctx, t);
}

/* Sorts pairs (token, slot) by expert: fills first[], place[] and active[] from expert[]. Within an
 * expert, pairs keep the order of tokens. */
static void sort_pairs(struct job *j) {
    struct moe_bufs *b = j->b;
    int64_t pairs = j->s->n_tok * j->n_used;
    memset(b->first, 0, (size_t)(j->n_experts + 1) * sizeof *b->first);
    for (int64_t i = 0; i < pairs; i++) b->first[b->expert[i] + 1]++;
    j->n_active = 0;
    for (int64_t e = 0; e < j->n_experts; e++) {
        if (b->first[e + 1]) b->active[j->n_active++] = (int32_t)e;
        b->first[e + 1] += b->first[e];
    }
    for (int64_t i = 0; i < pairs; i++) b->place[i] = b->first[b->expert[i]]++;
    for (int64_t e = j->n_experts; e > 0; e--) b->first[e] = b->first[e - 1];
    b->first[0] = 0;
}

/* Copies the input rows of tokens [t0, t1) to their places in the order sorted by expert. */
static void gather_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t i = t0 * j->n_used; i < t1 * j->n_used; i++)
        memcpy(j->b->x + j->b->place[i] * j->d, j->x + i / j->n_used * j->d,
               (size_t)j->d * sizeof *j->x);
}

/* Does the same as gather_range for the rounded (packed) rows. */
static void gather_rounded(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    const int64_t n = j->row_blocks;
    for (int64_t i = t0 * j->n_used; i < t1 * j->n_used; i++)
        memcpy(j->sorted + j->b->place[i] * n, j->rounded + i / j->n_used * n,
               (size_t)n * sizeof *j->sorted);
}

/* Prepares the sorted rows as inputs of gate (`which` 0) or up (1). For packed weights each token
 * is rounded to 8 bits once and then copied to its sorted places. */
static void inputs(struct job *j, const struct weight *w, struct acts *a, int64_t pairs,
                   int which) {
    struct session *s = j->s;
    if (!exec_is_packed(s, w)) {
        exec_acts(s, a, w, j->b->x, j->d, pairs, which, false);
        return;
    }
    struct acts once;
    exec_acts(s, &once, w, j->x, j->d, s->n_tok, which, false);
    j->rounded = once.p;
    j->sorted = s->act_buf[ACT_EXPERT + which].act;
    j->row_blocks = once.p_ld;
    exec_par(s, s->n_tok, 16, (double)(pairs * j->d), gather_rounded, j);
    *a =
        (struct acts){.x = j->b->x, .ld = j->d, .n_rows = pairs, .p = j->sorted, .p_ld = once.p_ld};
}
/* Prepares the sorted rows h as inputs of down. */
static void middle(struct job *j, int64_t pairs) {
    struct session *s = j->s;
    if (!exec_is_packed(s, j->down)) {
        exec_acts(s, &j->a, j->down, j->b->h, j->f, pairs, 0, false);
        return;
    }
    struct act_buf *b = &s->act_buf[ACT_EXPERT];
    b->x = NULL;
    j->a = (struct acts){.x = j->b->h,
                         .ld = j->f,
                         .n_rows = pairs,
                         .p = exec_round(s, b, j->down, j->b->h, j->f, pairs),
                         .p_ld = kern_act_blocks(j->f)};
}

/* Returns the sorted rows of expert e. */
static struct acts expert_acts(const struct job *j, const struct acts *all, int64_t e) {
    struct acts a = *all;
    int64_t first = j->b->first[e];
    a.x += first * a.ld;
    if (a.q) a.q += (uint64_t)first * a.q_row;
    if (a.p) a.p += first * a.p_ld;
    a.n_rows = j->b->first[e + 1] - first;
    return a;
}
static const uint8_t *expert_data(const struct weight *w, int64_t e) {
    return (const uint8_t *)w->data + (uint64_t)e * w->mat_bytes;
}

/* Computes gate = g * sigmoid(alpha g) * (u + 1), where g and u are gate and up clamped to the
 * node's limit; or, with a late clamp, min(silu(g), limit) * u. */
static void clamped(const struct job *j, float *gate, float *up, int64_t n) {
    const float limit = j->n->moe.limit, alpha = j->n->moe.alpha;
    if (j->n->moe.late) {
        j->s->kern.sigmoid_mul(gate, gate, n);
        for (int64_t i = 0; i < n; i++)
            gate[i] = fminf(gate[i], limit) * fmaxf(-limit, fminf(up[i], limit));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const float g = fminf(gate[i], limit), u = fmaxf(-limit, fminf(up[i], limit));
        gate[i] = g * (u + 1);
        up[i] = alpha * g;
    }
    j->s->kern.sigmoid_mul(gate, up, n);
}

/* Applies the node's activation to n values; the result replaces `gate`. */
static void activate_hidden(const struct job *j, float *gate, float *up, int64_t n) {
    for (int64_t i = 0; j->n->moe.relu2 && i < n; i++)
        gate[i] = gate[i] > 0 ? gate[i] * gate[i] : 0;
    if (j->n->moe.relu2) return;
    if (j->n->moe.limit > 0)
        clamped(j, gate, up, n);
    else if (j->n->moe.gelu)
        exec_gelu_mul(j->s, gate, up, gate, n);
    else
        j->s->kern.swiglu(gate, up, gate, n);
}

/* Adds values [r0, r0 + n) of expert e's bias [experts][f] to x. bias NULL: none. */
static void add_bias(const float *bias, int64_t e, int64_t f, int64_t r0, float *x, int64_t n) {
    for (int64_t i = 0; bias && i < n; i++) x[i] += bias[e * f + r0 + i];
}

/* Moves the weights of the pairs to the sorted rows, reusing the memory of the router's scores, and
 * sets the originals to 1 so that they are not applied twice. */
static void weigh_inputs(struct job *j) {
    for (int64_t i = 0; i < j->s->n_tok * j->n_used; i++) {
        j->b->logits[j->b->place[i]] = j->b->weight[i];
        j->b->weight[i] = 1;
    }
}
static void scale_by(float *x, int64_t n, float by) {
    for (int64_t i = 0; i < n; i++) x[i] *= by;
}

/* Computes panels i0 to i1 - 1 of the active experts' hidden values; a pool_fn. */
static void gate_up_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    float *scratch = j->s->scratch[worker];
    float *up = scratch + exec_panel_rows(j->d) * j->d;
    for (int64_t i = i0; i < i1; i++) {
        int64_t e = j->b->active[i / j->n_panels], r0 = i % j->n_panels * j->panel;
        int64_t nr = min_i64(j->panel, j->f - r0);
        struct acts a = expert_acts(j, &j->a, e), a_up = expert_acts(j, &j->a_up, e);
        float *h = j->b->h + j->b->first[e] * j->f + r0;
        exec_rows(j->s, j->gate, expert_data(j->gate, e), r0, r0 + nr, &a, h, j->f, scratch);
        if (!j->n->moe.relu2)
            exec_rows(j->s, j->up, expert_data(j->up, e), j->up_row + r0, j->up_row + r0 + nr,
                      &a_up, up, nr, scratch);
        for (int64_t t = 0; t < a.n_rows; t++) {
            /* A product is linear, so the weights may be applied to its result instead. */
            if (j->n->moe.scales_input) {
                const float by = j->b->logits[j->b->first[e] + t];
                scale_by(h + t * j->f, nr, by);
                scale_by(up + t * nr, nr, by);
            }
            add_bias(j->gate_bias, e, j->f, r0, h + t * j->f, nr);
            add_bias(j->up_bias, e, j->f, r0, up + t * nr, nr);
            activate_hidden(j, h + t * j->f, up + t * nr, nr);
        }
    }
}
/* Computes panels i0 to i1 - 1 of the active experts' outputs; a pool_fn. */
static void down_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct job *j = ctx;
    for (int64_t i = i0; i < i1; i++) {
        int64_t e = j->b->active[i / j->n_panels], r0 = i % j->n_panels * j->panel;
        struct acts a = expert_acts(j, &j->a, e);
        float *y = j->b->y + j->b->first[e] * j->d + r0;
        const int64_t r1 = min_i64(r0 + j->panel, j->d);
        exec_rows(j->s, j->down, expert_data(j->down, e), r0, r1, &a, y, j->d,
                  j->s->scratch[worker]);
        for (int64_t t = 0; t < a.n_rows; t++)
            add_bias(j->down_bias, e, j->d, r0, y + t * j->d, r1 - r0);
    }
}
/* Sums the weighted outputs of the chosen experts for tokens [t0, t1) into dst. */
static void combine_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        float *dst = j->s->reg[j->n->dst] + t * j->d;
        memset(dst, 0, (size_t)j->d * sizeof *dst);
        for (int64_t u = 0; u < j->n_used; u++) {
            int64_t i = t * j->n_used + u;
            j->s->kern.axpy(dst, j->b->y + j->b->place[i] * j->d, j->b->weight[i], j->d);
        }
    }
}

/* Records the token of each sorted row and, unless weigh_inputs has done so, the weight of its
 * pair. */
static void name_rows(const struct job *j) {
    for (int64_t i = 0; i < j->s->n_tok * j->n_used; i++) {
        j->b->token[j->b->place[i]] = (int32_t)(i / j->n_used);
        if (!j->n->moe.scales_input) j->b->logits[j->b->place[i]] = j->b->weight[i];
    }
}

/* Shows the sorted rows to the probe. gated: their products are multiplied by the pairs' weights
 * later. */
static void show_rows(const struct job *j, gr_w w, const float *x, int64_t ld, bool gated) {
    for (int64_t i = 0; i < j->n_active; i++) {
        const int64_t e = j->b->active[i], r = j->b->first[e];
        exec_show_expert(j->s, w, e, x + r * ld, j->b->first[e + 1] - r, ld, j->b->token + r,
                         gated ? j->b->logits + r : NULL);
    }
}

/* Returns the number of weight rows per task (exec_task_rows). What matters is the number of rows
 * per expert: a hundred tokens are few if they are spread over 256 experts. A task's results must
 * also fit in its scratch. */
static int64_t task_rows(const struct job *j, const struct weight *w, uint64_t row_bytes,
                         int64_t n_rows) {
    int64_t most = 1;
    for (int64_t i = 0; i < j->n_active; i++) {
        const int64_t e = j->b->active[i];
        most = max_i64(most, j->b->first[e + 1] - j->b->first[e]);
    }
    const int64_t mean = div_up(j->s->n_tok * j->n_used, max_i64(j->n_active, 1));
    const int64_t rows = exec_task_rows(j->s, w, row_bytes, n_rows, j->n_active, mean);
    const int64_t fits = exec_task_floats(j->s->o.n_ubatch) / most / 32 * 32;
    return rows > fits ? max_i64(fits, exec_panel_rows(w->ne[0])) : rows;
}

/* Returns the values of a weight vector; NULL for GR_NONE. */
static const float *vec_of(struct session *s, gr_w w) {
    return w == GR_NONE ? NULL : exec_vec(s, w);
}

/* Runs MOE for the pass (models/ops.def): routed experts. */
void exec_moe(struct session *s, const struct gr_node *n) {
    const struct gr_moe *m = &n->moe;
    const struct weight *router = model_weight(s->m, m->router);
    struct job j = {.s = s,
                    .n = n,
                    .b = &s->moe,
                    .gate = model_weight(s->m, m->gate),
                    .up = model_weight(s->m, m->up == GR_NONE ? m->gate : m->up),
                    .down = model_weight(s->m, m->down),
                    .factor = vec_of(s, m->factor),
                    .prefer = vec_of(s, m->prefer),
                    .router_bias = vec_of(s, m->router_bias),
                    .gate_bias = vec_of(s, m->gate_bias),
                    .up_bias = vec_of(s, m->up_bias),
                    .down_bias = vec_of(s, m->down_bias),
                    .x = s->reg[n->src[0]],
                    .n_experts = router->ne[1],
                    .n_used = m->n_used};
    const float *judged = n->src[1] == GR_NONE ? j.x : s->reg[n->src[1]];
    j.d = j.gate->ne[0];
    j.f = m->joined ? j.gate->ne[1] / 2 : j.gate->ne[1];
    j.up_row = m->joined ? j.f : 0;
    int64_t pairs = s->n_tok * j.n_used;
    double work = (double)(pairs * j.d) * (double)j.f;
    exec_show(s, m->router, judged, router->ne[0]);
    exec_product(s, router, judged, router->ne[0], s->n_tok, j.b->logits, 2 * j.n_experts, true);
    exec_par(s, s->n_tok, 16, (double)(s->n_tok * j.n_experts * (8 + j.n_used)), choose_range, &j);
    exec_show_route(s, n, j.b->expert);
    sort_pairs(&j);
    if (n->moe.scales_input) weigh_inputs(&j);
    if (s->probe.product || !exec_is_packed(s, j.gate) || !exec_is_packed(s, j.up))
        exec_par(s, s->n_tok, 16, (double)(pairs * j.d), gather_range, &j);
    if (s->probe.product) {
        name_rows(&j);
        show_rows(&j, m->gate, j.b->x, j.d, true);
        if (m->up != GR_NONE) show_rows(&j, m->up, j.b->x, j.d, true);
    }
    inputs(&j, j.gate, &j.a, pairs, 0);
    j.a_up = j.a;
    if (kern_dot_partner(j.up->type) != kern_dot_partner(j.gate->type) ||
        exec_is_packed(s, j.up) != exec_is_packed(s, j.gate))
        inputs(&j, j.up, &j.a_up, pairs, 1);
    j.panel = task_rows(&j, j.gate, j.gate->row_bytes + j.up->row_bytes, j.f);
    j.n_panels = div_up(j.f, j.panel);
    exec_par(s, j.n_active * j.n_panels, 1, 2 * work, gate_up_range, &j);
    if (s->probe.product) show_rows(&j, m->down, j.b->h, j.f, !n->moe.scales_input);
    middle(&j, pairs);
    j.panel = task_rows(&j, j.down, j.down->row_bytes, j.d);
    j.n_panels = div_up(j.d, j.panel);
    exec_par(s, j.n_active * j.n_panels, 1, work, down_range, &j);
    exec_par(s, s->n_tok, 16, (double)(pairs * j.d), combine_range, &j);
}
