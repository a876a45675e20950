// SPDX-License-Identifier: MIT
/* plan/plan_plot.h - context lengths that hone plan considers, and the plot of memory against
 * context. */
#ifndef HONE_PLAN_PLAN_PLOT_H
#define HONE_PLAN_PLAN_PLOT_H

#include "work/work.h"
#include "models/fit.h"

#define PLAN_CTX_MAX (INT64_C(1) << 20)

/* Returns the context that follows ctx in the plot (0: the first): 4096, then twice as long each
 * time, up to PLAN_CTX_MAX or the longer of the trained and the planned context, and these two.
 * Returns 0 after the last one. */
int64_t plan_next_ctx(const struct sizes *z, int64_t planned, int64_t ctx);

/* Writes an SVG to `path`: bytes of weights, state, working memory and ask->n_slots caches of f16,
 * q8_0 and q4_0 against the context and, with ask->memory, the card's memory less the reserve. */
int plan_plot(const struct work *w, const struct sizes *z, const struct fit_ask *ask,
              const char *path, struct err *e);

#endif
