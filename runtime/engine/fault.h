// SPDX-License-Identifier: MIT
/* runtime/engine/fault.h - detection of NaN and infinity in results, and search for the weight or
 * block that causes them. */
#ifndef HONE_RUNTIME_ENGINE_FAULT_H
#define HONE_RUNTIME_ENGINE_FAULT_H

#include "runtime/engine/session.h"

/* Returns whether one of n logits is NaN or +infinity; -infinity marks an impossible token. */
bool fault_in_logits(const float *x, int64_t n);
/* Scans all weights of the file. ERR_DATA: a weight has a value that is not finite; the message
 * names the weight. */
int fault_in_weights(const struct gguf *g, struct err *e);
/* Fails with ERR_DATA after a session has computed a value that is not finite from the n tokens.
 * The message names the first weight in the file with such a value or else the first
 * block whose output has one when the tokens are run again, which resets the session. ids NULL: the
 * blocks are not checked. */
int fault_find(struct session *s, const int32_t *ids, int64_t n, struct err *e);
/* Returns 0 if all n_x values in x are finite; otherwise fails like fault_find(s, ids, n, e). */
int fault_check(struct session *s, const double *x, int64_t n_x, const int32_t *ids, int64_t n,
                struct err *e);

#endif
