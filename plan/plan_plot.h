// SPDX-License-Identifier: MIT
/* plan/plan_plot.h - contexts that hone plan looks at, and their plot. */
#ifndef HONE_PLAN_PLAN_PLOT_H
#define HONE_PLAN_PLAN_PLOT_H

#include "work/work.h"
#include "models/fit.h"

#define PLAN_CTX_MAX (INT64_C(1) << 20)

/* Returns the context that follows ctx in the plot, where ctx 0 asks for the first: 4096, doubled
 * up to what the model was trained for, which is the last, or to PLAN_CTX_MAX. Returns 0 when there
 * are no more. */
int64_t plan_next_ctx(const struct sizes *z, int64_t ctx);

/* Writes an SVG to `path`: bytes of weights, state, working memory and ask->n_slots caches of f16,
 * q8_0 and q4_0 over the contexts, and with ask->memory what the card has less the reserve. */
int plan_plot(const struct work *w, const struct sizes *z, const struct fit_ask *ask,
              const char *path, struct err *e);

#endif
