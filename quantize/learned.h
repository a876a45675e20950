// SPDX-License-Identifier: MIT
/* quantize/learned.h - use of the learned tensors in a file of moments: they are copied instead of
 * encoded. */
#ifndef HONE_QUANTIZE_LEARNED_H
#define HONE_QUANTIZE_LEARNED_H

#include "containers/gguf.h"
#include "quantize/hessian_file.h"
#include "quantize/qplan.h"

/* Returns whether the output has every learned tensor, in the type and shape it was learned in.
 * Learned tensors only fit each other, so an output takes all of them or none. */
bool learned_fit(const struct gram *m, const struct gguf *g, const struct qplan *plan);
/* Checks a learned tensor that replaces tensor t of the source. ERR_DATA: it was learned from other
 * weights, or holds NaN or infinity. */
int learned_check(const struct gram_learned *l, const struct gguf_tensor *t, struct err *e);

#endif
