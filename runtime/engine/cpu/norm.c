// SPDX-License-Identifier: MIT
/* runtime/engine/cpu/norm.c - LayerNorm of whole rows or of single heads. Sums are double, because
 * the mean may be large compared with the spread. */
#include <math.h>

#include "runtime/engine/exec.h"

enum { TOKEN_CHUNK = 16 };

struct job {
    struct session *s;
    const struct gr_node *n;
    const float *w, *b; /* weights and biases; NULL: 1 and 0 */
    /* group: number of values normalized together. w_group: number of values after which w and b
     * repeat. */
    int64_t group, w_group;
};

/* Normalizes a group of values x into y; `at`: offset of its factors in weight and bias. */
static void norm_one(const struct job *j, const float *x, float *y, int64_t at) {
    const int64_t n = j->group;
    double mean = 0, var = 0;
    for (int64_t i = 0; i < n; i++) mean += (double)x[i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) var += ((double)x[i] - mean) * ((double)x[i] - mean);
    const double r = 1 / sqrt(var / (double)n + (double)j->n->norm.eps);
    for (int64_t i = 0; i < n; i++) {
        float v = (float)(((double)x[i] - mean) * r);
        if (j->w) v *= j->w[at + i];
        if (j->b) v += j->b[at + i];
        y[i] = v;
    }
}

/* Computes LAYER_NORM for tokens t0 to t1 - 1; a pool_fn. */
static void norm_range(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct job *j = ctx;
    (void)worker;
    const int64_t width = j->s->g->reg_width[j->n->dst];
    for (int64_t t = t0; t < t1; t++)
        for (int64_t at = 0; at < width; at += j->group)
            norm_one(j, j->s->reg[j->n->src[0]] + t * width + at,
                     j->s->reg[j->n->dst] + t * width + at, at % j->w_group);
}

/* Returns a weight's values (NULL for GR_NONE) and sets j->w_group to their number. */
static const float *vec_of(struct job *j, gr_w w) {
    if (w == GR_NONE) return NULL;
    const int64_t *ne = j->s->g->weight[w].ne;
    j->w_group = ne[0] * ne[1];
    return exec_vec(j->s, w);
}

/* Runs LAYER_NORM for the pass (models/ops.def): normalizes groups around their mean. */
void exec_layer_norm(struct session *s, const struct gr_node *n) {
    const int64_t width = s->g->reg_width[n->dst], head = n->norm.head_dim;
    struct job j = {.s = s, .n = n, .group = head ? head : width, .w_group = width};
    j.w = vec_of(&j, n->norm.weight);
    j.b = vec_of(&j, n->norm.bias);
    exec_par(s, s->n_tok, TOKEN_CHUNK, 8.0 * (double)(s->n_tok * width), norm_range, &j);
}
