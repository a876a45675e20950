// SPDX-License-Identifier: MIT
/* mix/slopes.h - ratio of divergence to relative error for each group, from gradients on a text. */
#ifndef HONE_MIX_SLOPES_H
#define HONE_MIX_SLOPES_H

#include "base/pool.h"
#include "mix/sens.h"
#include "runtime/engine/model.h"

struct slope_text {
    const int32_t *ids; /* [n_windows][ctx], borrowed */
    int64_t n_windows, ctx;
};
/* Sets the slope of every group whose tensors m uses: to second order, the ratio of the output's
 * divergence to the relative error of the group (docs/design/mix.md, "Stages"). s must be of the
 * same file as m; imat as in sens_source. If an operation has no derivative or memory is short,
 * slopes stay unchanged and a line is logged. Costs about five passes over the text, on the CPU;
 * needs the memory of grad_new plus 4 bytes per matrix row. One rank (base/ranks.h) measures and
 * broadcasts. */
int slopes_measure(struct sens *s, const struct model *m, const struct imat *imat,
                   const struct slope_text *t, enum kern_isa isa, struct pool *pool, struct err *e);

#endif
