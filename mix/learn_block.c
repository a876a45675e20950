// SPDX-License-Identifier: MIT
/* mix/learn_block.c - gradient descent on the codes, scales and vectors of one block. */
#include "mix/learn_block.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/progress.h"
#include "mix/learn_set.h"

/* Steps of codes, in levels, and relative steps of scales and vectors at the beginning; checks of
 * the held-out chunks. */
static const struct learn_rate first_rate = {.code = 0.005, .scale = 0.001};
enum { CHECKS = 4 };
/* A block with a smaller error is not learned: 1 / error could overflow a float. */
#define LEAST_ERROR 1e-30

struct job {
    const struct learn_block_opts *b;
    struct grad *grad;
    struct learn_set set;
};

/* Runs a chunk through the block. */
static int run(struct job *j, int64_t chunk, bool back, double *error, struct err *e) {
    const struct learn_opts *o = &j->b->o;
    const int64_t at = chunk * o->ctx, width = o->base->hp.d[HD_EMBD];
    return grad_block(j->grad, j->b->block, o->ids + at, j->b->x + at * width, j->b->y + at * width,
                      o->ctx, back, error, e);
}

/* Computes the squared error of the held-out chunks. */
static int check(struct job *j, double *error, struct err *e) {
    *error = 0;
    for (int64_t i = LEARN_HELD - 1; i < j->b->o.n_chunks; i += LEARN_HELD) {
        double one;
        TRY(run(j, i, false, &one, e));
        *error += one;
    }
    return 0;
}

/* Checks the held-out chunks and keeps the state if it is the best so far. */
static int keep_if_better(struct job *j, struct learn_block_report *r, struct err *e) {
    double error;
    TRY(check(j, &error, e));
    log_debug("block %d: error on held-out text %.4f of that before", j->b->block,
              error / r->before);
    if (!(error < r->after)) return 0;
    r->after = error;
    learn_set_keep(&j->set);
    return 0;
}

/* Runs all steps over the n chunks in `order`. */
static int steps(struct job *j, const int64_t *order, int64_t n, struct learn_block_report *r,
                 struct err *e) {
    const int64_t each = div_up(n, LEARN_BATCH), all = each * j->b->o.passes;
    const float by = (float)(1 / r->before);
    for (int64_t s = 0; s < all; s++) {
        const int64_t from = s % each * LEARN_BATCH, to = min_i64(from + LEARN_BATCH, n);
        const double part = (double)s / (double)all, fall = 1 - part * part * (3 - 2 * part);
        double unused;
        for (int64_t i = from; i < to; i++) {
            TRY(run(j, order[i], true, &unused, e));
            if (progress_interrupted()) return err_set(e, ERR_INTR, "interrupted");
            if (j->b->progress) progress_update(j->b->progress, j->b->progress->done + 1);
        }
        const struct learn_rate rate = {.code = first_rate.code * fall,
                                        .scale = first_rate.scale * fall};
        learn_set_step(&j->set, by, rate, (int)s + 1);
        if ((s + 1) * CHECKS / all == s * CHECKS / all) continue;
        TRY(keep_if_better(j, r, e));
    }
    return 0;
}

int64_t learn_block_chunks(int64_t n_chunks, int passes) {
    return (n_chunks - n_chunks / LEARN_HELD) * passes;
}

int learn_block(const struct learn_block_opts *o, struct learn_block_report *r, struct err *e) {
    struct job j = {.b = o};
    int64_t n = 0;
    *r = (struct learn_block_report){0};
    TRY(learn_check(o->o.base, o->o.n_chunks, e));
    learn_set_init(&j.set, &o->o);
    int rc = 0;
    for (int i = 0; i < o->o.n_tensors && !rc; i++)
        rc = learn_set_add(&j.set, o->o.now, o->o.base, &o->o.tensor[i], e);
    if (!rc && j.set.n) {
        int64_t *order = learn_order(o->o.n_chunks, &n);
        rc = grad_new(&j.grad, o->o.now, o->o.ctx, o->o.w->isa, o->o.w->pool, e);
        if (!rc) {
            learn_set_observe(&j.set, j.grad);
            rc = check(&j, &r->before, e);
        }
        r->after = r->before;
        learn_set_keep(&j.set);
        if (!rc && r->before >= LEAST_ERROR) rc = steps(&j, order, n, r, e);
        learn_set_return(&j.set);
        free(order);
    }
    grad_free(j.grad);
    learn_set_release(&j.set);
    return rc;
}
