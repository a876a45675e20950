// SPDX-License-Identifier: MIT
/* calib/gradients.h - second moments of both sides of a model's products, by gradients: which
 * inputs matter for the model's answers, and which errors of different outputs add up. */
#ifndef HONE_CALIB_GRADIENTS_H
#define HONE_CALIB_GRADIENTS_H

#include "calib/moments.h"

struct gradients;
/* Makes what fills col (borrowed) with the moments of texts of ctx tokens. *out is NULL where the
 * model has an operation without a derivative, or memory is short; a line of the log says so. */
int gradients_new(struct gradients **out, const struct model *m, struct gram_col *col, int64_t ctx,
                  enum kern_isa isa, struct pool *pool, struct err *e);
void gradients_free(struct gradients *g);
/* Adds what a text of n tokens gives. Its answers are drawn by its number. */
int gradients_text(struct gradients *g, const int32_t *ids, int64_t n, int64_t number,
                   struct err *e);

#endif
