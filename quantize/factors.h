// SPDX-License-Identifier: MIT
/* quantize/factors.h - store of factors of second moments that several types, files or tensors use.
 *
 * A factor depends on the moments, the halves of the text in use and the shrinkage, not on the type
 * to be encoded. So the matrices of a pooled input share one factor, and so do all types of a
 * tensor and all tensors with the same input. Sharing never changes a byte. Used by one thread at a
 * time. */
#ifndef HONE_QUANTIZE_FACTORS_H
#define HONE_QUANTIZE_FACTORS_H

#include "quantize/factor.h"

struct factors;
/* Creates an empty store. It keeps factors that no caller holds as long as all of them together
 * take at most 1 GiB and at most 1/8 of the memory that was available at this call. */
struct factors *factors_new(void);
/* Frees all factors. None may be held. */
void factors_free(struct factors *c);
/* Begins a tensor: factors that only earlier tensors used may now make room for others. */
void factors_next(struct factors *c);
/* Replaces *held (NULL: none) by the factor of one matrix of `in`; see factor_make. An input with
 * one matrix has the same factor for every mat. `pooled` is from factors_pool. */
int factors_get(struct factors *c, const struct gram_input *in, int64_t mat,
                const struct factor_opts *o, const struct factor *pooled, struct pool *pool,
                const struct factor **held, struct err *e);
/* Replaces *held (or NULL) by the sums over all matrices of `in` (factor_pool). Only its fields r
 * and total are set. */
int factors_pool(struct factors *c, const struct gram_input *in, unsigned halves,
                 const struct factor **held, struct err *e);
/* Releases *held and sets it to NULL. */
void factors_put(struct factors *c, const struct factor **held);
/* Returns the number of factors computed so far. */
int64_t factors_made(const struct factors *c);

#endif
