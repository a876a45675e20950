// SPDX-License-Identifier: MIT
/* calib/gradients.c - second moments of product inputs, weighted by gradients, and of output
 * gradients.
 *
 * To second order, an error E of a weight matrix causes a divergence of sum |g^T E x|^2 / 2 over
 * tokens with inputs x and gradients g (YAQA, Tseng et al. 2025). This is approximated as tr(G E H
 * E^T) with two sets of moments, H and G. H weights a token by the size of its gradient: |g| x x^T.
 * The formula suggests the square |g|^2, but with a few hundred thousand tokens that works worse,
 * because few gradients are large (docs/notebook/quality.md). G is the sum of g g^T. */
#include "calib/gradients.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "grad/grad.h"

struct gradients {
    struct grad *grad;
    struct gram_col *col;
    const struct model *m;
    struct pool *pool;
    float *gate; /* [most] square roots of gradient norms */
    int64_t most;
    float **size;     /* [n_weights][n_tokens] norms of gradients, for gradients_keep; NULL: none */
    int64_t *n_seen;  /* [n_weights] rows of the current text that were seen */
    int64_t n_tokens; /* tokens that `size` holds */
    int64_t first, n; /* the current text: its first token, its length */
};

/* Returns whether a weight is the down projection of experts; its output moments are pooled over
 * all experts. */
static bool is_down(const struct model *m, const struct gr_weight *w) {
    const struct graph *g = &m->graph;
    for (int i = 0; i < graph_count(g, OP_MOE); i++)
        if (&g->weight[graph_nth(g, OP_MOE, i)->moe.down] == w) return true;
    return false;
}

/* Adds the gradients of w's outputs to separate moments. */
static void see_outputs(struct gradients *g, const struct gr_weight *w, int64_t expert,
                        const float *dy, int64_t ld, int64_t n_rows) {
    struct gr_weight out = {.ne = {w->ne[1], 1, w->ne[2], 1}};
    if (strlen(w->name) + sizeof GRAM_OUT > sizeof out.name) return;
    snprintf(out.name, sizeof out.name, GRAM_OUT "%s", w->name);
    if (expert >= 0 && is_down(g->m, w)) expert = -1;
    if (expert >= 0 && !gram_col_apart(w->ne[1], w->ne[2])) return;
    gram_col_see(g->col, &out, expert, dy, NULL, n_rows, ld);
}

struct sizes { /* shape of the gradients dy [rows][ld], n per row */
    const float *dy;
    int64_t ld, n;
    float *gate;
};
/* Sets the weights of rows t0 to t1 - 1: the square root of the gradient's norm; a pool_fn. */
static void weigh_rows(void *ctx, int64_t t0, int64_t t1, int worker) {
    const struct sizes *j = ctx;
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        double sum = 0;
        for (int64_t i = 0; i < j->n; i++)
            sum += (double)j->dy[t * j->ld + i] * (double)j->dy[t * j->ld + i];
        j->gate[t] = (float)sqrt(sqrt(sum));
    }
}

/* Returns the index of the weight with this name among the model's; -1: none. */
static int index_of(const struct gradients *g, const char *name) {
    for (int i = 0; i < g->m->graph.n_weights; i++)
        if (strcmp(g->m->graph.weight[i].name, name) == 0) return i;
    return -1;
}
/* Adds the norms of gradients to those of their tokens; gate holds their square roots. */
static void keep_sizes(struct gradients *g, const struct gr_weight *w, int64_t n_rows) {
    const int i = index_of(g, w->name);
    const int32_t *token = grad_seen_tokens(g->grad);
    if (i < 0) return;
    if (!g->size[i]) g->size[i] = xcalloc((size_t)g->n_tokens, sizeof **g->size);
    for (int64_t r = 0; r < n_rows; r++) {
        const int64_t t = token ? token[r] : (g->n_seen[i] + r) % g->n;
        g->size[i][g->first + t] += g->gate[r] * g->gate[r];
    }
    if (!token) g->n_seen[i] += n_rows;
}

/* Forgets the sizes of gradients. */
static void drop_sizes(struct gradients *g) {
    for (int i = 0; g->size && i < g->m->graph.n_weights; i++) free(g->size[i]);
    free(g->size);
    free(g->n_seen);
}

void gradients_keep(struct gradients *g, int64_t n_tokens) {
    const size_t n = (size_t)g->m->graph.n_weights;
    drop_sizes(g);
    g->size = xcalloc(n, sizeof *g->size);
    g->n_seen = xcalloc(n, sizeof *g->n_seen);
    g->n_tokens = n_tokens;
}

bool gradients_gates(const struct gradients *g, const struct gr_weight *w, int64_t first,
                     const int32_t *token, const float *by, int64_t n_rows, float *gate) {
    const int i = index_of(g, w->name);
    if (i < 0 || !g->size[i]) return false;
    for (int64_t r = 0; r < n_rows; r++)
        gate[r] = sqrtf(g->size[i][first + token[r]] * (by ? by[r] : 1));
    return true;
}

/* Adds a product's input rows, weighted by their gradients, to the moments. */
static void see_product(void *ud, const struct gr_weight *w, int64_t expert, const float *x,
                        int64_t ld_x, const float *dy, int64_t ld_y, int64_t n_rows) {
    struct gradients *g = ud;
    if (n_rows > g->most) {
        g->most = n_rows;
        g->gate = xreallocarray(g->gate, (size_t)n_rows, sizeof *g->gate);
    }
    struct sizes j = {dy, ld_y, w->ne[1], g->gate};
    pool_for(g->pool, n_rows, 4, weigh_rows, &j);
    if (g->size)
        keep_sizes(g, w, n_rows);
    else
        gram_col_see_each(g->col, w, expert, x, g->gate, n_rows, ld_x);
    if (w != model_head(g->m)) see_outputs(g, w, expert, dy, ld_y, n_rows);
}

int gradients_new(struct gradients **out, const struct model *m, struct gram_col *col, int64_t ctx,
                  enum kern_isa isa, struct pool *pool, struct err *e) {
    const char *missing = "";
    *out = NULL;
    if (!grad_can(m, &missing)) {
        log_info("the operation %s has no derivative: collecting second moments of inputs only",
                 missing);
        return 0;
    }
    struct gradients *g = xcalloc(1, sizeof *g);
    g->m = m;
    g->col = col;
    g->pool = pool;
    const int rc = grad_new(&g->grad, m, ctx, isa, pool, e);
    if (rc) {
        free(g);
        if (rc != ERR_SYS) return rc;
        log_warn("%s: collecting second moments of inputs only", e->msg);
        return 0;
    }
    grad_observe(g->grad, see_product, g);
    *out = g;
    return 0;
}

void gradients_blas(struct gradients *g, unsigned uses) {
    grad_blas(g->grad, uses);
}

void gradients_device(struct gradients *g, struct dev_product *d) {
    grad_device(g->grad, d);
}

void gradients_observe_inputs(struct gradients *g, session_show_fn see, void *ud) {
    grad_observe_inputs(g->grad, see, ud);
}

const float *gradients_hidden(const struct gradients *g) {
    return grad_hidden(g->grad);
}

void gradients_free(struct gradients *g) {
    if (!g) return;
    drop_sizes(g);
    grad_free(g->grad);
    free(g->gate);
    free(g);
}

int gradients_text(struct gradients *g, const int32_t *ids, int64_t n, int64_t number,
                   struct err *e) {
    if (g->size) {
        memset(g->n_seen, 0, (size_t)g->m->graph.n_weights * sizeof *g->n_seen);
        g->first = number * n;
        g->n = n;
    }
    return grad_text(g->grad, ids, NULL, n, (uint64_t)number, NULL, e);
}
