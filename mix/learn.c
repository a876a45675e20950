// SPDX-License-Identifier: MIT
/* mix/learn.c - gradient descent on the scales and vectors of the whole model. The loss of a batch
 * is the mean divergence of its tokens from the original. */
#include "mix/learn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/progress.h"
#include "mix/learn_set.h"

/* Checks of the held-out chunks; steps in which the rate rises. */
enum { CHECKS = 4, WARM_STEPS = 20 };
/* Relative step of scales at its highest. */
#define RATE 0.003

struct job {
    const struct learn_opts *o;
    struct grad *grad;    /* of the quantized model */
    struct session *base; /* of the original */
    float *hidden;        /* [ctx] head's input rows of the original */
    struct learn_set set;
};

/* ---- gradients ------------------------------------------------------------------------------- */

/* Sets the logits of the original; a grad_aim_fn. */
static int aim(void *ud, int64_t t, int64_t n, float *logits, struct err *e) {
    struct job *j = ud;
    const int64_t width = j->o->base->graph.reg_width[j->o->base->graph.hidden_out];
    return session_head(j->base, j->hidden + t * width, n, logits, e);
}

/* Runs the original over a chunk, for its logits. */
static int run_base(struct job *j, int64_t chunk, struct err *e) {
    session_reset(j->base);
    return session_forward(j->base, j->o->ids + chunk * j->o->ctx, j->o->ctx, j->hidden, e);
}

/* Computes the mean divergence of the held-out chunks. */
static int check(struct job *j, double *mean, struct err *e) {
    const struct learn_opts *o = j->o;
    double sum = 0, loss;
    int64_t n = 0;
    for (int64_t i = LEARN_HELD - 1; i < o->n_chunks; i += LEARN_HELD, n++) {
        TRY(run_base(j, i, e));
        TRY(grad_loss(j->grad, o->ids + i * o->ctx, NULL, o->ctx, 0, &loss, e));
        sum += loss;
    }
    *mean = sum / (double)(n * o->ctx);
    return 0;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Changes all blocks against the gradient of the batch. */
static void step_all(struct job *j, int64_t n_tokens, int64_t step, int64_t n_steps) {
    const double rise = fmin(1, (double)step / WARM_STEPS),
                 fall = 1 - (double)(step - 1) / (double)n_steps;
    learn_set_step(&j->set, 1 / (float)n_tokens, (struct learn_rate){.scale = RATE * rise * fall},
                   (int)step);
}

/* Checks the held-out chunks and keeps the state if it is the best so far. */
static int keep_if_better(struct job *j, struct learn_report *r, struct err *e) {
    double mean;
    TRY(check(j, &mean, e));
    log_debug("held-out divergence: %.6f", mean);
    if (!(mean < r->after)) return 0;
    r->after = mean;
    learn_set_keep(&j->set);
    return 0;
}

/* Runs all steps. */
static int steps(struct job *j, const int64_t *order, int64_t n, struct learn_report *r,
                 struct progress *p, struct err *e) {
    const struct learn_opts *o = j->o;
    const int64_t each = div_up(n, LEARN_BATCH);
    r->n_steps = each * o->passes;
    for (int64_t s = 0; s < r->n_steps; s++) {
        const int64_t from = s % each * LEARN_BATCH, to = min_i64(from + LEARN_BATCH, n);
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

/* Opens both models and prepares the tensors. */
static int start(struct job *j, struct learn_report *r, struct err *e) {
    const struct learn_opts *o = j->o;
    const struct graph *g = &o->base->graph;
    const struct session_opts so = {
        .n_ctx = o->ctx, .n_ubatch = o->ctx, .isa = o->w->isa, .act = ACT_F32, .pool = o->w->pool};
    void *p = NULL;
    learn_set_init(&j->set, o);
    for (int i = 0; i < o->n_tensors; i++)
        TRY(learn_set_add(&j->set, o->now, NULL, &o->tensor[i], e));
    r->n_weights = j->set.n_weights;
    TRY(session_new(&j->base, o->base, &so, e));
    session_products(j->base, o->products);
    TRY(mem_alloc(&p, (uint64_t)(o->ctx * g->reg_width[g->hidden_out]) * sizeof(float),
                  "hidden rows", e));
    j->hidden = p;
    TRY(grad_new(&j->grad, o->now, o->ctx, o->w->isa, o->w->pool, e));
    grad_aim(j->grad, aim, j);
    learn_set_observe(&j->set, j->grad);
    return 0;
}

static void release(struct job *j) {
    grad_free(j->grad);
    session_free(j->base);
    mem_free(j->hidden);
    learn_set_release(&j->set);
}

int learn_check(const struct model *base, int64_t n_chunks, struct err *e) {
    const char *missing = NULL;
    if (n_chunks < LEARN_LEAST_CHUNKS)
        return err_set(e, ERR_DATA,
                       "learning needs %d chunks of text, there are %lld: give more text",
                       LEARN_LEAST_CHUNKS, (long long)n_chunks);
    if (!grad_can(base, &missing))
        return err_set(e, ERR_DATA, "the operation %s has no derivative: leave out --learn",
                       missing);
    return 0;
}

int learn_run(const struct learn_opts *o, struct learn_report *r, struct err *e) {
    struct job j = {.o = o};
    struct progress p;
    int64_t n = 0;
    *r = (struct learn_report){0};
    TRY(learn_check(o->base, o->n_chunks, e));
    int rc = start(&j, r, e);
    if (!rc && j.set.n) {
        int64_t *order = learn_order(o->n_chunks, &n);
        progress_begin(&p, "learning scales", PROG_ITEMS, (uint64_t)(n * o->passes));
        rc = check(&j, &r->before, e);
        r->after = r->before;
        learn_set_keep(&j.set);
        if (!rc) rc = steps(&j, order, n, r, &p, e);
        learn_set_return(&j.set);
        progress_end(&p);
        free(order);
    }
    release(&j);
    return rc;
}
