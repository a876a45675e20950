// SPDX-License-Identifier: MIT
/* plan/memory_plan.h - memory plan for one model: whether it fits a card, with which context, and
 * what must stay in main memory. */
#ifndef HONE_PLAN_MEMORY_PLAN_H
#define HONE_PLAN_MEMORY_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "work/work.h"
#include "models/sizes.h"

#define PLAN_USUAL_RESERVE UINT64_MAX
#include "commands/members.h"
struct memory_plan_opts {
    const char *const *path; /* [n_paths] GGUF files or folders; a single file is planned in full */
    int n_paths;
#include "commands/plan.def"
};
extern const struct memory_plan_opts memory_plan_usual;
/* Checks the options; ERR_USAGE if slots or ctx are out of range. */
int memory_plan_check(const struct memory_plan_opts *o, struct err *e);
/* Computes a model's memory sizes from its headers; *a: its architecture. */
int plan_sizes(const struct gguf *g, struct sizes *z, const struct arch **a, struct err *e);
/* Reads a file's headers: memory sizes, architecture and file size. */
int plan_read_sizes(const char *path, struct sizes *z, const struct arch **a, uint64_t *file_bytes,
                    struct err *e);
/* Fills m from the file's headers. ERR_VERDICT: not even part of the model fits the card; m is
 * complete all the same. */
int memory_plan_run(struct work *w, const struct memory_plan_opts *o, struct emit *m,
                    struct err *e);

#endif
