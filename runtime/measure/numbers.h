// SPDX-License-Identifier: MIT
/* runtime/measure/numbers.h - perplexity, speed, logits and draft acceptance of one model. */
#ifndef HONE_RUNTIME_MEASURE_NUMBERS_H
#define HONE_RUNTIME_MEASURE_NUMBERS_H

#include "runtime/measure/job.h"

/* Measures the perplexity of a model on a text file, in windows of a->ctx tokens, and fills m. */
int eval_ppl_run(struct work *w, const struct eval_args *a, const char *model, const char *text,
                 struct emit *m, struct err *e);
/* Measures prompt and generation speed in tokens per second at each depth of a->depths, and fills
 * m. */
int eval_speed_run(struct work *w, const struct eval_args *a, const char *model, struct emit *m,
                   struct err *e);
/* Writes the logits of the tokens in a->ids, f32 [n][n_vocab], to a->out. */
int eval_logits_run(struct work *w, const struct eval_args *a, const char *model, struct emit *m,
                    struct err *e);
/* Measures, on a text file, the share of the MTP (multi-token prediction) block's guesses that the
 * trunk would accept, and fills m. With several models, m has a table of them, with the differences
 * from the first. If draft files follow a model, the table is of these, for that model. */
int eval_mtp_run(struct work *w, const struct eval_args *a, const char *const *model, int n_models,
                 const char *text, struct emit *m, struct err *e);

#endif
