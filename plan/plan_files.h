// SPDX-License-Identifier: MIT
/* plan/plan_files.h - hone plan with several files: which one is best for a card. */
#ifndef HONE_PLAN_PLAN_FILES_H
#define HONE_PLAN_PLAN_FILES_H

#include "base/emit.h"
#include "plan/memory_plan.h"

/* Returns whether the arguments of `hone plan` name more than one file: several arguments, or a
 * folder. */
bool plan_is_choice(const struct memory_plan_opts *o);
/* Fills m with a table of the files, largest first, and the recommended one. A folder adds the
 * models in it, a Hugging Face folder the files that `hone make` would create from it. Losses come
 * from the results.json next to a file. ERR_VERDICT: no file fits the card. */
int plan_files_run(struct work *w, const struct memory_plan_opts *o, struct emit *m, struct err *e);

#endif
