// SPDX-License-Identifier: MIT
/* runtime/engine/fault.h - numbers that are not numbers: whether results hold any, and which weight
 * or block they come from. */
#ifndef HONE_RUNTIME_ENGINE_FAULT_H
#define HONE_RUNTIME_ENGINE_FAULT_H

#include "runtime/engine/session.h"

/* Returns true when one of n logits is NaN or infinite upwards; -infinity is a token that cannot
 * come. */
bool fault_in_logits(const float *x, int64_t n);
/* Fails with ERR_DATA and names the weight when one of the file is not a finite number. It reads
 * them all. */
int fault_in_weights(const struct gguf *g, struct err *e);
/* Fails with ERR_DATA, since a session computed something that is not a number from the n tokens.
 * The message names the first weight of the file that holds such a value; else the first block
 * whose output does when the tokens are run again, which resets the session. ids may be NULL:
 * nothing is run. */
int fault_find(struct session *s, const int32_t *ids, int64_t n, struct err *e);
/* Fails like fault_find when one of the n numbers in x is not finite. */
int fault_check(struct session *s, const double *x, int64_t n_x, const int32_t *ids, int64_t n,
                struct err *e);

#endif
