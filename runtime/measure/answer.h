// SPDX-License-Identifier: MIT
/* runtime/measure/answer.h - one-sentence summary of a divergence measurement. */
#ifndef HONE_RUNTIME_MEASURE_ANSWER_H
#define HONE_RUNTIME_MEASURE_ANSWER_H

#include <stdbool.h>

#include "base/buf.h"
#include "runtime/measure/eval.h"

/* Returns whether the divergence of a pair's first file is lower by more than chance: there are
 * enough windows for an interval, and that of the ratio, which is shown, excludes 1, or that of the
 * difference 0 if there is no ratio. */
bool eval_is_closer(const struct eval_pair *p);
/* Appends a sentence that compares n models with `base`: how much a single model loses, or which of
 * several is closest and which is farthest, and from which others these two do not differ by more
 * than chance. Labels come from the tables, the wording from report/pick.h. run: the measurement of
 * these models; NULL: differences are not tested. */
void eval_answer(const struct eval_kld *k, char *const *label, int n, const char *base,
                 const struct eval_kld_run *run, struct buf *out);

#endif
