// SPDX-License-Identifier: MIT
/* grad/head.c - loss of a text, and the gradients of the head's input rows. */
#include <math.h>
#include <string.h>

#include "base/fp.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "grad/grad_int.h"

/* Rows of logits at a time. The callback gets SEEN_ROWS rows at a time; this number affects the
 * moments' bits. */
enum { HEAD_ROWS = 128, SEEN_ROWS = 32 };

/* Draws a token from n probabilities. The same seed and position give the same token. */
static int32_t draw_target(const double *p, int64_t n, uint64_t seed, int64_t t) {
    struct rng r;
    rng_seed(&r, seed + (uint64_t)t * 0x9e3779b97f4a7c15u);
    double u = rng_unit(&r);
    for (int64_t i = 0; i < n - 1; i++)
        if ((u -= p[i]) < 0) return (int32_t)i;
    return (int32_t)n - 1;
}

/* Replaces a token's logits by their gradient. Returns its loss. */
static double row_loss(const struct grad *g, float *l, double *p, const int32_t *answer,
                       uint64_t seed, int64_t t) {
    const int64_t n = g->m->weight[g->g->output].ne[1];
    const double cap = g->g->softcap;
    double top = -(double)INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, (double)l[i]);
    for (int64_t i = 0; i < n; i++) sum += p[i] = fp_exp((double)l[i] - top);
    for (int64_t i = 0; i < n; i++) p[i] /= sum;
    const int32_t a = answer ? answer[t] : draw_target(p, n, seed, t);
    const double loss = top + fp_log(sum) - (double)l[a];
    for (int64_t i = 0; i < n; i++) {
        const double d = p[i] - (i == a), of = cap > 0 ? (double)l[i] / cap : 0;
        l[i] = (float)(d * (1 - of * of));
    }
    return loss;
}

/* Replaces a token's logits by the gradient of their divergence from those in `to`; p holds 2 n
 * values. Returns the divergence. */
static double row_divergence(const struct grad *g, float *l, const float *to, double *p) {
    const int64_t n = g->m->weight[g->g->output].ne[1];
    const double cap = g->g->softcap;
    double top[2] = {-(double)INFINITY, -(double)INFINITY}, sum[2] = {0, 0}, loss = 0;
    for (int64_t i = 0; i < n; i++) {
        top[0] = fmax(top[0], (double)l[i]);
        top[1] = fmax(top[1], (double)to[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        sum[0] += p[i] = fp_exp((double)l[i] - top[0]);
        sum[1] += p[n + i] = fp_exp((double)to[i] - top[1]);
    }
    const double between = (top[0] + fp_log(sum[0])) - (top[1] + fp_log(sum[1]));
    for (int64_t i = 0; i < n; i++) {
        const double q = p[i] / sum[0], t = p[n + i] / sum[1];
        const double of = cap > 0 ? (double)l[i] / cap : 0;
        loss += t * ((double)to[i] - (double)l[i] + between);
        l[i] = (float)((q - t) * (1 - of * of));
    }
    return loss;
}

struct head_job {
    struct grad *g;
    float *logits;
    const float *aim; /* [HEAD_ROWS][n_vocab] the other model's logits; NULL: answers */
    double *p, *loss; /* [workers][2][n_vocab], [HEAD_ROWS] */
    const int32_t *answer;
    uint64_t seed;
    int64_t t0;
};
/* Computes the loss and its gradient for rows i0 to i1 - 1 of logits. */
static void loss_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct head_job *j = ctx;
    const int64_t n = j->g->m->weight[j->g->g->output].ne[1];
    for (int64_t i = i0; i < i1; i++) {
        float *l = j->logits + i * n;
        double *p = j->p + 2 * worker * n;
        j->loss[i] = j->aim ? row_divergence(j->g, l, j->aim + i * n, p)
                            : row_loss(j->g, l, p, j->answer, j->seed, j->t0 + i);
    }
}

int grad_head(struct grad *g, const int32_t *answer, uint64_t seed, double *loss, struct err *e) {
    const struct weight *w = model_weight(g->m, g->g->output);
    const int64_t d = grad_width(g, g->g->hidden_out), n_vocab = w->ne[1];
    float *dx = g->reg[g->g->hidden_out];
    double part[HEAD_ROWS];
    void *p = NULL;
    TRY(mem_alloc(&p,
                  (uint64_t)n_vocab * ((g->aim ? 2U : 1U) * HEAD_ROWS * sizeof(float) +
                                       2 * (uint64_t)pool_size(g->pool) * sizeof(double)),
                  "logits", e));
    struct head_job j = {.g = g, .answer = answer, .seed = seed, .p = p, .loss = part};
    j.logits = (float *)(j.p + 2 * pool_size(g->pool) * n_vocab);
    float *aim = g->aim ? j.logits + HEAD_ROWS * n_vocab : NULL;
    j.aim = aim;
    int rc = 0;
    *loss = 0;
    memset(dx, 0, (size_t)(g->n * d) * sizeof *dx);
    for (int64_t t = 0, n; t < g->n && !rc; t += n) {
        n = min_i64(HEAD_ROWS, g->n - t);
        rc = session_head(g->s, g->hidden + t * d, n, j.logits, e);
        if (!rc && aim) rc = g->aim(g->aim_ud, t, n, aim, e);
        if (rc) break;
        j.t0 = t;
        pool_for(g->pool, n, 1, loss_range, &j);
        for (int64_t i = 0; i < n; i++) *loss += part[i];
        grad_product(g, w, j.logits, dx + t * d, n);
        for (int64_t i = 0; i < n && g->see; i += SEEN_ROWS)
            g->see(g->see_ud, model_head(g->m), -1, g->hidden + (t + i) * d, d,
                   j.logits + i * n_vocab, n_vocab, min_i64(SEEN_ROWS, n - i));
    }
    mem_free(p);
    return rc;
}
