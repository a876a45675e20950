// SPDX-License-Identifier: MIT
/* mix/learn.c - learned scales: gradients of weights summed over a batch, and steps of all blocks.
 *
 * The loss of a batch is the mean divergence of its tokens. The gradient of a matrix is the sum of
 * g x^T over tokens, with the outputs' gradients g and the inputs x that grad/ shows. Gradients of
 * vectors come from grad/ as sums. */
#include "mix/learn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/rng.h"
#include "grad/grad.h"
#include "quantize/learn.h"

/* Chunks per step; every HELD-th chunk is held out; CHECKS of the held-out chunks; steps in which
 * the rate rises. */
enum { BATCH = 2, HELD = LEARN_LEAST_CHUNKS, CHECKS = 4, WARM_STEPS = 20 };
/* Relative step of scales at its highest. */
#define RATE 0.003
/* Work of one task: rows of a gradient; weights of a step. */
enum { PANEL = 64, WEIGHTS = 4096 };

struct tensor {
    const struct gr_weight *w;
    struct learned *l;
    uint8_t *data, *best;         /* blocks: current, and with the lowest divergence so far */
    struct learn_changes *change; /* of the best state */
    float *d;                     /* gradient of the batch */
    int64_t n_blocks, block;      /* blocks, and weights of each */
    uint64_t n_bytes;
};
struct job {
    const struct learn_opts *o;
    struct grad *grad;    /* of the quantized model */
    struct session *base; /* of the original */
    float *hidden;        /* [ctx] head's input rows of the original */
    struct kern kern;
    struct tensor *tensor;
    int n_tensors;
    float *scratch; /* [workers][PANEL][most tokens] */
    int64_t most;
};

/* ---- gradients ------------------------------------------------------------------------------- */

/* Sets the logits of the original; a grad_aim_fn. */
static int aim(void *ud, int64_t t, int64_t n, float *logits, struct err *e) {
    struct job *j = ud;
    const int64_t width = j->o->base->graph.reg_width[j->o->base->graph.hidden_out];
    return session_head(j->base, j->hidden + t * width, n, logits, e);
}

struct panel_job {
    const struct job *j;
    const struct gr_weight *w;
    float *d; /* of the matrix */
    const float *x, *g;
    int64_t ld_x, ld_g, n;
};
/* Adds g x^T to panels i0 to i1 - 1 of the rows of a matrix's gradient; a pool_fn. */
static void add_panels(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct panel_job *p = ctx;
    const int64_t cols = p->w->ne[0], rows = p->w->ne[1];
    float *turned = p->j->scratch + worker * PANEL * p->j->most;
    for (int64_t i = i0; i < i1; i++) {
        const int64_t r0 = i * PANEL, m = min_i64(PANEL, rows - r0);
        for (int64_t r = 0; r < m; r++)
            for (int64_t t = 0; t < p->n; t++) turned[r * p->n + t] = p->g[t * p->ld_g + r0 + r];
        p->j->kern.gemm_nn(turned, p->n, p->x, p->ld_x, p->d + r0 * cols, cols, m, cols, p->n);
    }
}
/* Adds a product's share to the gradient of its matrix; a grad_see_fn. */
static void see_product(void *ud, const struct gr_weight *w, int64_t expert, const float *x,
                        int64_t ld_x, const float *g, int64_t ld_g, int64_t n_rows) {
    struct job *j = ud;
    for (int i = 0; i < j->n_tensors; i++) {
        const struct tensor *t = &j->tensor[i];
        if (strcmp(t->w->name, w->name) != 0) continue;
        struct panel_job p = {.j = j, .w = w, .x = x, .g = g, .ld_x = ld_x, .ld_g = ld_g};
        p.d = t->d + (expert < 0 ? 0 : expert) * w->ne[0] * w->ne[1];
        for (int64_t t0 = 0; t0 < n_rows; t0 += p.n) {
            p.n = min_i64(j->most, n_rows - t0);
            p.x = x + t0 * ld_x;
            p.g = g + t0 * ld_g;
            pool_for(j->o->w->pool, div_up(w->ne[1], PANEL), 1, add_panels, &p);
        }
    }
}

/* Adds a text's gradient of a vector; a grad_vector_fn. */
static void see_vector(void *ud, const struct gr_weight *w, const double *d, int64_t n) {
    struct job *j = ud;
    for (int i = 0; i < j->n_tensors; i++) {
        const struct tensor *t = &j->tensor[i];
        if (t->n_blocks != n || strcmp(t->w->name, w->name) != 0) continue;
        for (int64_t k = 0; k < n; k++) t->d[k] += (float)d[k];
    }
}

/* Runs the original over a chunk, for its logits. */
static int run_base(struct job *j, int64_t chunk, struct err *e) {
    session_reset(j->base);
    return session_forward(j->base, j->o->ids + chunk * j->o->ctx, j->o->ctx, j->hidden, e);
}

/* Returns whether a chunk is held out. */
static bool is_held(int64_t chunk) {
    return chunk % HELD == HELD - 1;
}

/* Computes the mean divergence of the held-out chunks. */
static int check(struct job *j, double *mean, struct err *e) {
    const struct learn_opts *o = j->o;
    double sum = 0, loss;
    int64_t n = 0;
    for (int64_t i = HELD - 1; i < o->n_chunks; i += HELD, n++) {
        TRY(run_base(j, i, e));
        TRY(grad_loss(j->grad, o->ids + i * o->ctx, NULL, o->ctx, 0, &loss, e));
        sum += loss;
    }
    *mean = sum / (double)(n * o->ctx);
    return 0;
}

/* ---- steps ----------------------------------------------------------------------------------- */

struct step_job {
    struct tensor *t;
    double rate;
    float by; /* factor of the gradient */
    int step;
};
/* Changes the blocks of tasks i0 to i1 - 1; a pool_fn. */
static void step_range(void *ctx, int64_t i0, int64_t i1, int worker) {
    const struct step_job *s = ctx;
    const struct tensor *t = s->t;
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
/* Changes all blocks against the gradient of the batch, which becomes zero. */
static void step_all(struct job *j, int64_t n_tokens, int64_t step, int64_t n_steps) {
    const double rise = fmin(1, (double)step / WARM_STEPS),
                 fall = 1 - (double)(step - 1) / (double)n_steps;
    for (int i = 0; i < j->n_tensors; i++) {
        struct step_job s = {&j->tensor[i], RATE * rise * fall, 1 / (float)n_tokens, (int)step};
        pool_for(j->o->w->pool, div_up(s.t->n_blocks * s.t->block, WEIGHTS), 1, step_range, &s);
    }
}

/* Returns the chunks that are not held out, in an order that depends only on their number. */
static int64_t *order_of(const struct learn_opts *o, int64_t *n) {
    int64_t *v = xcalloc((size_t)o->n_chunks, sizeof *v);
    struct rng r;
    rng_seed(&r, (uint64_t)o->n_chunks);
    *n = 0;
    for (int64_t i = 0; i < o->n_chunks; i++)
        if (!is_held(i)) v[(*n)++] = i;
    for (int64_t i = *n - 1; i > 0; i--) {
        const int64_t k = (int64_t)(rng_unit(&r) * (double)(i + 1)), was = v[i];
        v[i] = v[k];
        v[k] = was;
    }
    return v;
}

/* Copies the blocks of all tensors from the current state to the best one, or back. */
static void copy_best(struct job *j, bool back) {
    for (int i = 0; i < j->n_tensors; i++) {
        struct tensor *t = &j->tensor[i];
        memcpy(back ? t->data : t->best, back ? t->best : t->data, (size_t)t->n_bytes);
        if (!back) learn_result(t->l, t->change->v);
    }
}

/* Checks the held-out chunks and keeps the state if it is the best so far. */
static int keep_if_better(struct job *j, struct learn_report *r, struct err *e) {
    double mean;
    TRY(check(j, &mean, e));
    log_debug("held-out divergence: %.6f", mean);
    if (!(mean < r->after)) return 0;
    r->after = mean;
    copy_best(j, false);
    return 0;
}

/* Runs all steps. */
static int steps(struct job *j, const int64_t *order, int64_t n, struct learn_report *r,
                 struct progress *p, struct err *e) {
    const struct learn_opts *o = j->o;
    const int64_t each = div_up(n, BATCH);
    r->n_steps = each * o->passes;
    for (int64_t s = 0; s < r->n_steps; s++) {
        const int64_t from = s % each * BATCH, to = min_i64(from + BATCH, n);
        for (int64_t i = from; i < to; i++) {
            TRY(run_base(j, order[i], e));
            TRY(grad_text(j->grad, o->ids + order[i] * o->ctx, NULL, o->ctx, 0, NULL, e));
            if (progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
            progress_update(p, p->done + 1);
        }
        step_all(j, (to - from) * o->ctx, s + 1, r->n_steps);
        if ((s + 1) * CHECKS / r->n_steps > s * CHECKS / r->n_steps) TRY(keep_if_better(j, r, e));
    }
    return 0;
}

/* ---- the job --------------------------------------------------------------------------------- */

/* Returns whether a weight is learned: its blocks can be, its products have no factors, and it is
 * in a block of the model or a vector. */
static bool is_learned(const struct weight *w, const char *name) {
    if (!w || w->scale || !learn_can(w->type)) return false;
    return qtype_info(w->type)->block_elems == 1 ? learn_is_vector(w->type, w->ne)
                                                 : strncmp(name, "blk.", 4) == 0;
}
/* Prepares a tensor, unless it cannot be learned, or is an embedding or the head. */
static int add_tensor(struct job *j, const struct learn_tensor *from, struct learn_report *r,
                      struct err *e) {
    const struct model *m = j->o->now;
    const struct weight *w = model_find_weight(m, from->name);
    void *p = NULL;
    if (!is_learned(w, from->name)) return 0;
    struct tensor *t = &j->tensor[j->n_tensors++];
    for (int i = 0; i < m->graph.n_weights; i++)
        if (strcmp(m->graph.weight[i].name, from->name) == 0) t->w = &m->graph.weight[i];
    if (!t->w) return err_set(e, ERR_DATA, "the graph has no weight %s", from->name);
    t->data = from->data;
    t->n_bytes = w->n_bytes;
    t->n_blocks = (int64_t)(w->n_bytes / (uint64_t)qtype_info(w->type)->block_bytes);
    t->block = qtype_info(w->type)->block_elems;
    const uint64_t n = (uint64_t)(t->n_blocks * t->block);
    TRY(mem_alloc(&p, n * sizeof(float), "gradients of weights", e));
    t->d = p;
    memset(t->d, 0, (size_t)n * sizeof(float));
    TRY(mem_alloc(&p, t->n_bytes, "copies of blocks", e));
    t->best = p;
    TRY(learn_new(&t->l, w->type, t->data, t->n_blocks, e));
    t->change = &r->change[r->n_changes++];
    *t->change = (struct learn_changes){
        .name = xstrdup(from->name), .type = w->type, .n = learn_scales(w->type, t->n_blocks)};
    t->change->v = xcalloc((size_t)t->change->n, sizeof(float));
    return 0;
}

/* Opens both models and prepares the tensors. */
static int start(struct job *j, struct learn_report *r, struct err *e) {
    const struct learn_opts *o = j->o;
    const struct graph *g = &o->base->graph;
    const struct session_opts so = {
        .n_ctx = o->ctx, .n_ubatch = o->ctx, .isa = o->w->isa, .act = ACT_F32, .pool = o->w->pool};
    void *p = NULL;
    kern_init(&j->kern, o->w->isa);
    j->tensor = xcalloc((size_t)o->n_tensors + 1, sizeof *j->tensor);
    r->change = xcalloc((size_t)o->n_tensors + 1, sizeof *r->change);
    for (int i = 0; i < o->n_tensors; i++) TRY(add_tensor(j, &o->tensor[i], r, e));
    for (int i = 0; i < j->n_tensors; i++)
        r->n_weights += j->tensor[i].n_blocks * j->tensor[i].block;
    TRY(session_new(&j->base, o->base, &so, e));
    TRY(mem_alloc(&p, (uint64_t)(o->ctx * g->reg_width[g->hidden_out]) * sizeof(float),
                  "hidden rows", e));
    j->hidden = p;
    j->most = o->ctx;
    j->scratch = xcalloc((size_t)(pool_size(o->w->pool) * PANEL * j->most), sizeof *j->scratch);
    TRY(grad_new(&j->grad, o->now, o->ctx, o->w->isa, o->w->pool, e));
    grad_aim(j->grad, aim, j);
    grad_observe(j->grad, see_product, j);
    grad_observe_vectors(j->grad, see_vector, j);
    return 0;
}

static void release(struct job *j) {
    grad_free(j->grad);
    session_free(j->base);
    mem_free(j->hidden);
    free(j->scratch);
    for (int i = 0; i < j->n_tensors; i++) {
        learn_free(j->tensor[i].l);
        mem_free(j->tensor[i].d);
        mem_free(j->tensor[i].best);
    }
    free(j->tensor);
}

void learn_report_release(struct learn_report *r) {
    for (int i = 0; i < r->n_changes; i++) {
        free(r->change[i].name);
        free(r->change[i].v);
    }
    free(r->change);
    *r = (struct learn_report){0};
}

/* Drops the changes of tensors that have none: vectors without a gradient. */
static void drop_unchanged(struct learn_report *r) {
    const int n = r->n_changes;
    r->n_changes = 0;
    for (int i = 0; i < n; i++) {
        struct learn_changes *c = &r->change[i];
        bool any = false;
        for (int64_t k = 0; k < c->n; k++) any |= c->v[k] != 0;
        if (any) {
            r->change[r->n_changes++] = *c;
        } else {
            free(c->name);
            free(c->v);
        }
    }
}

int learn_check(const struct model *base, int64_t n_chunks, struct err *e) {
    const char *missing = NULL;
    if (n_chunks < LEARN_LEAST_CHUNKS)
        return err_set(e, ERR_DATA, "learned scales need %d chunks of text: there are %lld",
                       LEARN_LEAST_CHUNKS, (long long)n_chunks);
    if (!grad_can(base, &missing))
        return err_set(e, ERR_DATA, "learned scales: the operation %s has no derivative", missing);
    return 0;
}

int learn_run(const struct learn_opts *o, struct learn_report *r, struct err *e) {
    struct job j = {.o = o};
    struct progress p;
    int64_t n = 0;
    *r = (struct learn_report){0};
    TRY(learn_check(o->base, o->n_chunks, e));
    int rc = start(&j, r, e);
    if (!rc && j.n_tensors) {
        int64_t *order = order_of(o, &n);
        progress_begin(&p, "learning scales", PROG_ITEMS, (uint64_t)(n * o->passes));
        rc = check(&j, &r->before, e);
        r->after = r->before;
        copy_best(&j, false);
        if (!rc) rc = steps(&j, order, n, r, &p, e);
        copy_best(&j, true);
        progress_end(&p);
        free(order);
    }
    release(&j);
    drop_unchanged(r);
    return rc;
}
