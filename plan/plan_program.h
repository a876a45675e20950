// SPDX-License-Identifier: MIT
/* plan/plan_program.h - human-readable tables of a model's execution program, for hone plan
 * --launches and hone doctor MODEL. */
#ifndef HONE_PLAN_PLAN_PROGRAM_H
#define HONE_PLAN_PLAN_PROGRAM_H

#include "work/work.h"
#include "models/sizes.h"
#include "runtime/engine/cuda/dry_program.h"

/* Returns whether the tables show prompt passes that copy experts from main memory to the device.
 * The tables assume that the device has room for them. */
bool plan_brings(const struct device *d);
/* Adds a table for each batch class: the steps of a pass on the device of --device, with bytes and
 * FLOP. Blocks with the same steps share a group of rows. n_keys: number of cached tokens. */
void plan_program(struct emit *m, const struct work *w, const struct dry_program *o,
                  const struct kv_rows *kv, int64_t n_keys);
/* Adds a table of the operations that are not fused, or that use a slower path than the hardware
 * allows. */
void plan_notes(struct emit *m, const struct work *w, const struct dry_program *o);

#endif
