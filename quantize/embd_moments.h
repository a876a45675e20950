// SPDX-License-Identifier: MIT
/* quantize/embd_moments.h - second moments for token_embd.weight, a lookup table without inputs of
 * its own.
 *
 * An error e in a row first reaches the matrices of the first block, normalized by that row's own
 * small scale; in later blocks the residual is much larger. So the loss to minimize is the sum over
 * those matrices W of c |W diag(g) e|^2 / |W diag(g)|^2, where g is the norm's weights, and c is 4
 * for the router, else 1. That is e G e^T with G = sum of c diag(g) W^T W diag(g) / |W diag(g)|^2.
 * For the later blocks, 0.1 of G's mean is added to its diagonal (docs/design/feedback.md). G
 * depends only on the model. */
#ifndef HONE_QUANTIZE_EMBD_MOMENTS_H
#define HONE_QUANTIZE_EMBD_MOMENTS_H

#include "containers/gguf.h"
#include "base/pool.h"
#include "quantize/hessian_file.h"

struct embd_moments {
    struct gram_input in; /* both halves are equal; in.n 0: there are no moments */
    float *sum;           /* [n][block] */
    float count;
};
/* Computes the moments from the weights of g. `pool` may be NULL. The result does not depend on
 * the number of threads or the machine. */
int embd_moments_make(struct embd_moments *m, const struct gguf *g, struct pool *pool,
                      struct err *e);
/* Frees the sums and clears *m. */
void embd_moments_release(struct embd_moments *m);
/* Returns a tensor's moments: from the file or, for embeddings, from m; NULL: missing. */
const struct gram_input *embd_moments_find(const struct embd_moments *m, const struct gram *gram,
                                           const char *name);

#endif
