// SPDX-License-Identifier: MIT
/* grad/grad.h - gradients of a text's loss with respect to the outputs of a model's products.
 *
 * The loss is -sum log p(answer), with answers drawn from the model's own distribution. The outer
 * products of its gradients then add up to the Fisher information, which gives, to second order,
 * the divergence that errors of an output cause. With grad_aim, it is the divergence itself.
 * Gradients of matrices are not computed: they are sums over tokens of what grad_observe gives. */
#ifndef HONE_RUNTIME_GRAD_GRAD_H
#define HONE_RUNTIME_GRAD_GRAD_H

#include "runtime/engine/session.h"

struct grad;
/* Receives the gradients of one product; called for each product, last layer first. Row r of x is
 * an input of w's matrix (of expert `expert`; -1: dense), and row r of g the gradient of the
 * corresponding output; rows are ld_x and ld_g values apart. For the head it is called several
 * times. An expert's rows are in token order; its gradients include the weight of the expert's
 * output. */
typedef void (*grad_see_fn)(void *ud, const struct gr_weight *w, int64_t expert, const float *x,
                            int64_t ld_x, const float *g, int64_t ld_g, int64_t n_rows);
/* Receives the gradients [n_rows][n_embd] of the residual that enters block `block`. */
typedef void (*grad_residual_fn)(void *ud, int block, const float *g, int64_t n_rows);

/* Receives the gradients of a lookup table; called for each table indexed by token. Row t of g
 * [n_rows][width] is the gradient with respect to row ids[t] of w times `by`. */
typedef void (*grad_lookup_fn)(void *ud, const struct gr_weight *w, const int32_t *ids, float by,
                               const float *g, int64_t n_rows);

/* Receives the gradient [n] of a norm's factors, or of a bias, summed over the text. */
typedef void (*grad_vector_fn)(void *ud, const struct gr_weight *w, const double *d, int64_t n);

/* Sets the logits [n][n_vocab] of tokens t to t + n - 1 of the current text to those of the model
 * that this one is compared with. */
typedef int (*grad_aim_fn)(void *ud, int64_t t, int64_t n, float *logits, struct err *e);

/* Returns whether all operations of a model's graph have derivatives; if not, sets *missing to the
 * name of the first one without. */
bool grad_can(const struct model *m, const char **missing);
bool grad_can_graph(const struct graph *g, const char **missing);
/* Allocates buffers for texts of n_ctx tokens. Returns ERR_DATA if grad_can fails, ERR_SYS if
 * memory is short. Needs four bytes per token for each value that the operations of the largest
 * piece of the graph read: one block, or the square root of n if n blocks share more than the
 * residual; for each value of the graph's registers; and for each block's residual. */
int grad_new(struct grad **out, const struct model *m, int64_t n_ctx, enum kern_isa isa,
             struct pool *pool, struct err *e);
void grad_free(struct grad *g);
/* Allows OpenBLAS for these uses (kernels/blas.h). */
void grad_blas(struct grad *g, unsigned uses);
/* Lets a device (borrowed; NULL: none) compute dense products and their gradients
 * (kernels/dev_product.h). */
struct dev_product;
void grad_device(struct grad *g, struct dev_product *d);
/* Sets the function that sees each product; NULL: none. */
void grad_observe(struct grad *g, grad_see_fn see, void *ud);
/* Returns the tokens of the rows that the function sees; NULL: consecutive tokens, which continue
 * those of the same weight's last call and start over after the text's last token (for each head).
 */
const int32_t *grad_seen_tokens(const struct grad *g);
/* Sets the function that sees the rows that enter each product of the model in a text's forward
 * pass, as a session's probe does; NULL: none. */
void grad_observe_inputs(struct grad *g, session_show_fn see, void *ud);
/* Returns the current text's inputs of the head, [n][n_embd], valid until the next text. */
const float *grad_hidden(const struct grad *g);
/* Sets the function that sees the residual's gradient; NULL: none. */
void grad_observe_residual(struct grad *g, grad_residual_fn see, void *ud);
/* Sets the function that sees each lookup of a row; NULL: none. */
void grad_observe_lookups(struct grad *g, grad_lookup_fn see, void *ud);
/* Sets the function that sees the gradients of norms' factors and of biases; NULL: none. */
void grad_observe_vectors(struct grad *g, grad_vector_fn see, void *ud);
/* Sets the function that gives another model's logits: the loss of every text is then the
 * divergence from it, sum p (log p - log q), and no answers are drawn. NULL: answers. */
void grad_aim(struct grad *g, grad_aim_fn aim, void *ud);
/* Computes the gradients for n tokens from an empty context. `answer` [n] holds the target tokens;
 * NULL: they are sampled, using `seed` and the position. *loss may be NULL. */
int grad_text(struct grad *g, const int32_t *ids, const int32_t *answer, int64_t n, uint64_t seed,
              double *loss, struct err *e);
/* Computes the gradients of half the squared distance of one block's output from `target`. The
 * block's input is x, which is ignored for block 0: it reads its embeddings. x and target are
 * [n][n_embd]; ids: the n tokens, from an empty context. *loss: the squared distance. Without
 * `back`, only that. ERR_USAGE: the block, or the next one, reads more than the residual before it.
 */
int grad_block(struct grad *g, int block, const int32_t *ids, const float *x, const float *target,
               int64_t n, bool back, double *loss, struct err *e);
/* Computes only the loss of a text. */
int grad_loss(struct grad *g, const int32_t *ids, const int32_t *answer, int64_t n, uint64_t seed,
              double *loss, struct err *e);

#endif
