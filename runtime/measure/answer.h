// SPDX-License-Identifier: MIT
/* runtime/measure/answer.h - one-sentence summary of a divergence measurement. */
#ifndef HONE_RUNTIME_MEASURE_ANSWER_H
#define HONE_RUNTIME_MEASURE_ANSWER_H

#include <stdbool.h>

#include "base/buf.h"
#include "runtime/measure/eval.h"

/* Sets the indexes of the closest and the farthest of n models; of equal ones the first and the
 * last. */
void eval_ends(const struct eval_kld *k, int n, int *near, int *far);
/* Appends a sentence that compares n models with `base`: how much a single model loses, or which of
 * several is closest and which is farthest. Labels come from the tables, the wording from
 * report/pick.h. differ: the difference of those two is more than chance. */
void eval_answer(const struct eval_kld *k, char *const *label, int n, const char *base, bool differ,
                 struct buf *out);

#endif
