// SPDX-License-Identifier: MIT
/* quantize/embd_moments.h - second moments for token_embd.weight, whose rows are looked up and
 * multiplied by nothing.
 *
 * The error e of a row meets the products of the first block first, normed by the small rows that
 * embeddings are; behind them the residual is many times larger. So what counts is the sum over
 * its matrices W of |W diag(g) e|^2 / |W diag(g)|^2, g being the norm's weights, and with
 * G = sum of diag(g) W^T W diag(g) / |W diag(g)|^2 that is e G e^T, to which a tenth of its mean
 * is added for the blocks behind (docs/design/feedback.md). It depends on the model alone. */
#ifndef HONE_QUANTIZE_EMBD_MOMENTS_H
#define HONE_QUANTIZE_EMBD_MOMENTS_H

#include "containers/gguf.h"
#include "base/pool.h"
#include "quantize/hessian_file.h"

struct embd_moments {
    struct gram_input in; /* Both halves are the same; in.n is 0 where there is nothing to go by. */
    float *sum;           /* [n][block] */
    float count;
};
/* Computes the moments from the weights of model g. `pool` may be NULL. The sums are the same for
 * any number of threads and on every machine. */
int embd_moments_make(struct embd_moments *m, const struct gguf *g, struct pool *pool,
                      struct err *e);
void embd_moments_release(struct embd_moments *m);
/* Returns the moments for a tensor: those of the file, else those of embeddings, else NULL. */
const struct gram_input *embd_moments_find(const struct embd_moments *m, const struct gram *gram,
                                           const char *name);

#endif
