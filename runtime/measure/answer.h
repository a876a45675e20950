// SPDX-License-Identifier: MIT
/* runtime/measure/answer.h - one-sentence summary of a divergence measurement. */
#ifndef HONE_RUNTIME_MEASURE_ANSWER_H
#define HONE_RUNTIME_MEASURE_ANSWER_H

#include "base/buf.h"
#include "runtime/measure/eval.h"

/* Appends a sentence that compares n models with `base`: how much a single model loses, or which of
 * several is closest and which is farthest. Labels come from the tables, the wording from
 * report/pick.h. */
void eval_answer(const struct eval_kld *k, char *const *label, int n, const char *base,
                 struct buf *out);

#endif
