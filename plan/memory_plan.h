// SPDX-License-Identifier: MIT
/* plan/memory_plan.h - will a model fit a card, at which context, with what left outside? */
#ifndef HONE_PLAN_MEMORY_PLAN_H
#define HONE_PLAN_MEMORY_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "work/work.h"
#include "models/sizes.h"

#define PLAN_USUAL_RESERVE UINT64_MAX
#include "commands/members.h"
struct memory_plan_opts {
    const char *const *path; /* [n_paths] GGUF files or folders; of one file everything is shown */
    int n_paths;
#include "commands/plan.def"
};
extern const struct memory_plan_opts memory_plan_usual;
/* Returns ERR_USAGE when slots or ctx are out of range. */
int memory_plan_check(const struct memory_plan_opts *o, struct err *e);
/* Computes the sizes of a model from its headers; *a: its architecture. */
int plan_sizes(const struct gguf *g, struct sizes *z, const struct arch **a, struct err *e);
/* Reads from a file's headers what its parts take in memory, its architecture and its bytes. */
int plan_read_sizes(const char *path, struct sizes *z, const struct arch **a, uint64_t *file_bytes,
                    struct err *e);
/* Fills m from the headers of the file. Returns ERR_VERDICT when nothing of it fits the card; m is
 * complete then too. */
int memory_plan_run(struct work *w, const struct memory_plan_opts *o, struct emit *m,
                    struct err *e);

#endif
