// SPDX-License-Identifier: MIT
/* make/publish_fit.h - table of the best file of a release for each memory size. */
#ifndef HONE_MAKE_PUBLISH_FIT_H
#define HONE_MAKE_PUBLISH_FIT_H

#include "report/release.h"
#include "report/result.h"

/* Fills r->fit_ctx, r->fit, r->enough_gib and the files' needs from the headers of the files; res
 * may be NULL. Redundant rows are left out: of the rows where nothing fits, only the last is kept,
 * and the rows end at the first memory size with which the best file fits with every context. */
void publish_fit(struct release *r, const struct result *res);

#endif
