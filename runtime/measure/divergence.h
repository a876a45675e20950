// SPDX-License-Identifier: MIT
/* runtime/measure/divergence.h - tables for `hone eval kld`: how far models diverge from a base
 * model. */
#ifndef HONE_RUNTIME_MEASURE_DIVERGENCE_H
#define HONE_RUNTIME_MEASURE_DIVERGENCE_H

#include <stdbool.h>

#include "runtime/measure/job.h"

struct divergence_opts {
    struct eval_args eval;
    const char *const *model; /* [n_models] candidates; with eval.save_base, the base */
    const char *const *text;  /* [n_texts] */
    int n_models, n_texts;
    bool for_people; /* human-readable: negative rounding errors are shown as 0, texts quoted */
};
/* Compares the models with eval.base or eval.base_file, or writes eval.save_base. Fills m. */
int divergence_run(struct work *w, const struct divergence_opts *o, struct emit *m, struct err *e);

#endif
