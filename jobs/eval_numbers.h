// SPDX-License-Identifier: MIT
/* jobs/eval_numbers.h - perplexity, speed, logits and acceptance of drafts of one model. */
#ifndef HONE_JOBS_EVAL_NUMBERS_H
#define HONE_JOBS_EVAL_NUMBERS_H

#include "jobs/eval_job.h"

/* Perplexity of a text: windows of a->ctx tokens. */
int eval_ppl_run(struct work *w, const struct eval_args *a, const char *model, const char *text,
                 struct emit *m, struct err *e);
/* Tokens per second of prompts and of generation. */
int eval_speed_run(struct work *w, const struct eval_args *a, const char *model, struct emit *m,
                   struct err *e);
/* Writes logits of the tokens in a->ids, f32 [n][n_vocab], to a->out. */
int eval_logits_run(struct work *w, const struct eval_args *a, const char *model, struct emit *m,
                    struct err *e);
/* How often the MTP block's guess of the token after next is the trunk's. */
int eval_mtp_run(struct work *w, const struct eval_args *a, const char *model, const char *text,
                 struct emit *m, struct err *e);

#endif
