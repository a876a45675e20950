// SPDX-License-Identifier: MIT
/* make/publish_fit.h - which file of a release fits which memory. */
#ifndef HONE_MAKE_PUBLISH_FIT_H
#define HONE_MAKE_PUBLISH_FIT_H

#include "report/release.h"
#include "report/result.h"

/* Fills r->fit_ctx, r->fit and r->enough_gib from the headers of the files; res may be NULL. Rows
 * that say no more than their neighbours are left out: those where nothing fits but the last such,
 * and those behind the first where the best file fits with every context. */
void publish_fit(struct release *r, const struct result *res);

#endif
