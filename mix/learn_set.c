// SPDX-License-Identifier: MIT
/* mix/learn_set.c - gradients of weights summed over a batch, and steps of all blocks.
 *
 * The gradient of a matrix is the sum of g x^T over tokens, with the outputs' gradients g and the
 * inputs x that grad/ shows. Gradients of vectors come from grad/ as sums. */
#include "mix/learn_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "kernels/dev_product.h"

/* Work of one task: rows of a gradient; weights of a step. */
enum { PANEL = 64, WEIGHTS = 4096 };

void learn_set_init(struct learn_set *s, const struct learn_opts *o) {
    *s = (struct learn_set){.pool = o->w->pool, .most = o->ctx, .products = o->products};
    kern_init(&s->kern, o->w->isa);
    s->v = xcalloc((size_t)o->n_tensors + 1, sizeof *s->v);
    s->scratch = xcalloc((size_t)(pool_size(s->pool) * PANEL * o->ctx), sizeof *s->scratch);
}

void learn_set_release(struct learn_set *s) {
    for (int i = 0; i < s->n; i++) {
        learn_free(s->v[i].l);
        mem_free(s->v[i].d);
        mem_free(s->v[i].best);
    }
    free(s->v);
    free(s->scratch);
    *s = (struct learn_set){0};
}

/* ---- gradients ------------------------------------------------------------------------------- */

struct panel_job {
    const struct learn_set *s;
    const struct gr_weight *w;
    float *d; /* of the matrix */
    const float *x, *g;
    int64_t ld_x, ld_g, n;
    int64_t r0; /* first row of panel 0 */
};
/* Adds g x^T to panels i0 to i1 - 1 of the rows of a matrix's gradient; a pool_fn. */
static void add_panels(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct panel_job *p = ctx;
    const int64_t cols = p->w->ne[0], rows = p->w->ne[1];
    float *turned = p->s->scratch + worker * PANEL * p->s->most;
    for (int64_t i = i0; i < i1; i++) {
        const int64_t r0 = p->r0 + i * PANEL, m = min_i64(PANEL, rows - r0);
        for (int64_t r = 0; r < m; r++)
            for (int64_t t = 0; t < p->n; t++) turned[r * p->n + t] = p->g[t * p->ld_g + r0 + r];
        p->s->kern.gemm_nn(turned, p->n, p->x, p->ld_x, p->d + r0 * cols, cols, m, cols, p->n);
    }
}
/* Adds the products g x^T of n_rows tokens to the gradient of p's matrix, s->most tokens at a time.
 */
static void add_product(const struct learn_set *s, struct panel_job p, int64_t n_rows) {
    const float *x = p.x, *g = p.g;
    for (int64_t t0 = 0; t0 < n_rows; t0 += p.n) {
        p.n = min_i64(s->most, n_rows - t0);
        p.x = x + t0 * p.ld_x;
        p.g = g + t0 * p.ld_g;
        const int64_t k = p.w->ne[0], rows = p.w->ne[1];
        const struct dev_pair pair = {p.g, p.x, p.ld_g, p.ld_x, p.n, rows, k};
        p.r0 = dev_product_outer(s->products, &pair, p.d);
        pool_for(s->pool, div_up(rows - p.r0, PANEL), 1, add_panels, &p);
    }
}
/* Adds a product's share to the gradient of its matrix; a grad_see_fn. */
static void see_product(void *ud, const struct gr_weight *w, int64_t expert, const float *x,
                        int64_t ld_x, const float *g, int64_t ld_g, int64_t n_rows) {
    struct learn_set *s = ud;
    for (int i = 0; i < s->n; i++) {
        const struct learn_one *t = &s->v[i];
        if (strcmp(t->w->name, w->name) != 0) continue;
        float *d = t->d + (expert < 0 ? 0 : expert) * w->ne[0] * w->ne[1];
        add_product(s, (struct panel_job){s, w, d, x, g, ld_x, ld_g, 0, 0}, n_rows);
    }
}

/* Adds a text's gradient of a vector; a grad_vector_fn. */
static void see_vector(void *ud, const struct gr_weight *w, const double *d, int64_t n) {
    struct learn_set *s = ud;
    for (int i = 0; i < s->n; i++) {
        const struct learn_one *t = &s->v[i];
        if (t->n_blocks != n || strcmp(t->w->name, w->name) != 0) continue;
        for (int64_t k = 0; k < n; k++) t->d[k] += (float)d[k];
    }
}

void learn_set_observe(struct learn_set *s, struct grad *g) {
    grad_device(g, s->products);
    grad_observe(g, see_product, s);
    grad_observe_vectors(g, see_vector, s);
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct step_job {
    struct learn_one *t;
    struct learn_rate rate;
    float by; /* factor of the gradient */
    int step;
};
/* Changes the blocks of tasks i0 to i1 - 1; a pool_fn. */
static void step_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct step_job *s = ctx;
    const struct learn_one *t = s->t;
    const int64_t each = WEIGHTS / t->block;
    (void)worker;
    for (int64_t i = i0; i < i1; i++) {
        const int64_t b0 = i * each, b1 = min_i64(b0 + each, t->n_blocks);
        const int64_t n = (b1 - b0) * t->block;
        float *d = t->d + b0 * t->block;
        for (int64_t k = 0; k < n; k++) d[k] *= s->by;
        learn_step(t->l, b0, b1, d, s->rate, s->step, t->data);
        memset(d, 0, (size_t)n * sizeof *d);
    }
}
void learn_set_step(struct learn_set *s, float by, struct learn_rate rate, int step) {
    for (int i = 0; i < s->n; i++) {
        struct step_job j = {&s->v[i], rate, by, step};
        pool_for(s->pool, div_up(j.t->n_blocks * j.t->block, WEIGHTS), 1, step_range, &j);
    }
}

void learn_set_keep(struct learn_set *s) {
    for (int i = 0; i < s->n; i++) {
        struct learn_one *t = &s->v[i];
        memcpy(t->best, t->data, (size_t)t->n_bytes);
    }
}

void learn_set_return(struct learn_set *s) {
    for (int i = 0; i < s->n; i++) memcpy(s->v[i].data, s->v[i].best, (size_t)s->v[i].n_bytes);
}

int64_t *learn_order(int64_t n_chunks, int64_t *n) {
    int64_t *v = xcalloc((size_t)n_chunks, sizeof *v);
    struct rng r;
    rng_seed(&r, (uint64_t)n_chunks);
    *n = 0;
    for (int64_t i = 0; i < n_chunks; i++)
        if (!learn_is_held(i)) v[(*n)++] = i;
    for (int64_t i = *n - 1; i > 0; i--) {
        const int64_t k = (int64_t)(rng_unit(&r) * (double)(i + 1)), was = v[i];
        v[i] = v[k];
        v[k] = was;
    }
    return v;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Returns whether a weight is learned: its blocks can be, its products have no factors, and it is
 * in a block of the model or a vector. */
static bool is_learned(const struct weight *w, const char *name) {
    if (!w || w->scale || !learn_can(w->type)) return false;
    return qtype_info(w->type)->block_elems == 1 ? learn_is_vector(w->type, w->ne)
                                                 : strncmp(name, "blk.", 4) == 0;
}
/* Lets the codes of a tensor be learned, from the original weights. */
static int add_codes(struct learn_one *t, const struct model *base, struct err *e) {
    const struct weight *w = model_find_weight(base, t->w->name);
    const struct qtype_info *q = w ? qtype_info(w->type) : NULL;
    struct kern ref;
    float x[QK];
    if (!w || w->scale || t->block % q->block_elems != 0) return 0;
    kern_init(&ref, KERN_REF);
    TRY(learn_codes(t->l, e));
    for (int64_t b = 0; b < t->n_blocks; b++) {
        const uint8_t *from =
            (const uint8_t *)w->data + (uint64_t)(b * t->block / q->block_elems * q->block_bytes);
        ref.op[w->type].decode(from, x, t->block);
        learn_codes_begin(t->l, b, b + 1, x, t->data);
    }
    return 0;
}

int learn_set_add(struct learn_set *s, const struct model *now, const struct model *base,
                  const struct learn_tensor *from, struct err *e) {
    const struct weight *w = model_find_weight(now, from->name);
    void *p = NULL;
    if (!is_learned(w, from->name)) return 0;
    struct learn_one *t = &s->v[s->n++];
    for (int i = 0; i < now->graph.n_weights; i++)
        if (strcmp(now->graph.weight[i].name, from->name) == 0) t->w = &now->graph.weight[i];
    if (!t->w) return err_set(e, ERR_DATA, "the graph has no weight %s", from->name);
    t->data = from->data;
    t->n_bytes = w->n_bytes;
    t->n_blocks = (int64_t)(w->n_bytes / (uint64_t)qtype_info(w->type)->block_bytes);
    t->block = qtype_info(w->type)->block_elems;
    const uint64_t n = (uint64_t)(t->n_blocks * t->block);
    s->n_weights += (int64_t)n;
    TRY(mem_alloc(&p, n * sizeof(float), "gradients of weights", e));
    t->d = p;
    memset(t->d, 0, (size_t)n * sizeof(float));
    TRY(mem_alloc(&p, t->n_bytes, "copies of blocks", e));
    t->best = p;
    TRY(learn_new(&t->l, w->type, t->data, t->n_blocks, e));
    return base && learn_can_codes(w->type) ? add_codes(t, base, e) : 0;
}
