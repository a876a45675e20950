// SPDX-License-Identifier: MIT
/* calib/gradients.h - second moments that need gradients: those of product inputs, weighted by
 * their influence on the model's answers, and those of output gradients. */
#ifndef HONE_CALIB_GRADIENTS_H
#define HONE_CALIB_GRADIENTS_H

#include "calib/moments.h"

struct gradients;
/* Creates an object that adds the moments of texts of ctx tokens to col (borrowed). Sets *out to
 * NULL and logs the reason if an operation of the model has no derivative or memory is short. */
int gradients_new(struct gradients **out, const struct model *m, struct gram_col *col, int64_t ctx,
                  enum kern_isa isa, struct pool *pool, struct err *e);
/* Allows OpenBLAS for these uses (kernels/blas.h). */
void gradients_blas(struct gradients *g, unsigned uses);
/* Lets a device (borrowed) compute products (kernels/dev_product.h). */
struct dev_product;
void gradients_device(struct gradients *g, struct dev_product *d);
/* Sets the function that sees the rows that enter each product of the model; NULL: none. */
void gradients_observe_inputs(struct gradients *g, session_show_fn see, void *ud);
/* Returns the inputs of the head of the last text, [n][n_embd]. */
const float *gradients_hidden(const struct gradients *g);
void gradients_free(struct gradients *g);
/* Adds only the moments of outputs from now on, and keeps the sizes of gradients for
 * gradients_gates: four bytes per matrix and token of n_tokens. Texts follow each other.
 * Another call starts over. */
void gradients_keep(struct gradients *g, int64_t n_tokens);
/* Sets gate[n_rows] to the square roots of the gradients' norms. Row r belongs to token[r] of the
 * text that starts at token `first`. For an expert, the norm is that of the token's sum over its
 * experts, times the router's weight by[r] (NULL: 1). Returns false if w has no gradients. */
bool gradients_gates(const struct gradients *g, const struct gr_weight *w, int64_t first,
                     const int32_t *token, const float *by, int64_t n_rows, float *gate);
/* Adds the moments of a text of n tokens. The text's number is the seed for sampling answers. */
int gradients_text(struct gradients *g, const int32_t *ids, int64_t n, int64_t number,
                   struct err *e);

#endif
