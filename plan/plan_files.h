// SPDX-License-Identifier: MIT
/* plan/plan_files.h - hone plan with several files: which of them to take for a card. */
#ifndef HONE_PLAN_PLAN_FILES_H
#define HONE_PLAN_PLAN_FILES_H

#include "base/emit.h"
#include "plan/memory_plan.h"

/* Returns true when the arguments of `hone plan` name more than one file: several arguments, or a
 * folder. */
bool plan_is_choice(const struct memory_plan_opts *o);
/* Fills m with a table of the files, the largest first, and which one to take. A folder stands for
 * the models in it, a Hugging Face folder for the files that `hone make` would make of it. Losses
 * come from results.json next to a file. Returns ERR_VERDICT when no file fits the card. */
int plan_files_run(struct work *w, const struct memory_plan_opts *o, struct emit *m, struct err *e);

#endif
