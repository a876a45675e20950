// SPDX-License-Identifier: MIT
/* runtime/measure/answer.h - what a measurement of divergence says, in a sentence. */
#ifndef HONE_RUNTIME_MEASURE_ANSWER_H
#define HONE_RUNTIME_MEASURE_ANSWER_H

#include "base/buf.h"
#include "runtime/measure/eval.h"

/* Appends a sentence on n models compared with `base`, whose labels are those of the tables: how
 * much one loses, or of several which is closest and which is farthest. The words are those of
 * report/pick.h. */
void eval_answer(const struct eval_kld *k, char *const *label, int n, const char *base,
                 struct buf *out);

#endif
