// SPDX-License-Identifier: MIT
/* grad/grad.h - how the loss of a text depends on the outputs of a model's products.
 *
 * The loss is -sum log p(answer), with answers drawn from the model's own distribution, so that
 * outer products of its gradients add up to Fisher's information: what errors of an output cost in
 * divergence, to second order. Gradients of weights are not computed. */
#ifndef HONE_RUNTIME_GRAD_GRAD_H
#define HONE_RUNTIME_GRAD_GRAD_H

#include "runtime/engine/session.h"

struct grad;
/* Called for each product, last layer first. Row r of x entered w's matrix (of expert `expert`; -1:
 * dense) and gave an output by which the gradient is row r of g, ld_x and ld_g values apart. What
 * enters the head comes in several calls. The rows of an expert are in the order of tokens, and its
 * gradients have the factor by which its answer is multiplied. */
typedef void (*grad_see_fn)(void *ud, const struct gr_weight *w, int64_t expert, const float *x,
                            int64_t ld_x, const float *g, int64_t ld_g, int64_t n_rows);
/* Called with the gradients [n_rows][n_embd] by the residual that enters block `block`. */
typedef void (*grad_residual_fn)(void *ud, int block, const float *g, int64_t n_rows);

/* Called for each table whose rows are looked up by token: g [n_rows][width] are the gradients by
 * row ids[t] of w times `by`. */
typedef void (*grad_lookup_fn)(void *ud, const struct gr_weight *w, const int32_t *ids, float by,
                               const float *g, int64_t n_rows);

/* Tells whether there are derivatives of all operations of a model's graph; *missing is the name of
 * the first without one. */
bool grad_can(const struct model *m, const char **missing);
bool grad_can_graph(const struct graph *g, const char **missing);
/* Makes room for texts of n_ctx tokens. ERR_DATA when grad_can says no, ERR_SYS without memory:
 * four bytes for each value that the products and other operations of the largest block read. */
int grad_new(struct grad **out, const struct model *m, int64_t n_ctx, enum kern_isa isa,
             struct pool *pool, struct err *e);
void grad_free(struct grad *g);
void grad_observe(struct grad *g, grad_see_fn see, void *ud);
void grad_observe_residual(struct grad *g, grad_residual_fn see, void *ud);
void grad_observe_lookups(struct grad *g, grad_lookup_fn see, void *ud);
/* Computes the gradients for n tokens from an empty context. `answer` [n] are the tokens whose loss
 * it is; NULL: they are drawn, by `seed` and the position. *loss may be NULL. */
int grad_text(struct grad *g, const int32_t *ids, const int32_t *answer, int64_t n, uint64_t seed,
              double *loss, struct err *e);

#endif
