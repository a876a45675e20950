// SPDX-License-Identifier: MIT
/* plan/plan_program.h - programs of a model for people: hone plan --launches, hone doctor MODEL. */
#ifndef HONE_PLAN_PLAN_PROGRAM_H
#define HONE_PLAN_PLAN_PROGRAM_H

#include "work/work.h"
#include "models/sizes.h"
#include "runtime/engine/cuda/dry_program.h"

/* Tells whether passes of many rows, as the tables have them, copy experts that lie in main memory
 * to the device; that it has room for them is taken for granted. */
bool plan_brings(const struct device *d);
/* Adds a table for each class of batch: the steps of a pass on the device of --device, with their
 * bytes and FLOP. Blocks whose steps are the same are one group of rows. n_keys is the number of
 * tokens in the cache. */
void plan_program(struct emit *m, const struct work *w, const struct dry_program *o,
                  const struct kv_rows *kv, int64_t n_keys);
/* Adds a table of what is not fused, or is computed by a slower way than there is. */
void plan_notes(struct emit *m, const struct work *w, const struct dry_program *o);

#endif
