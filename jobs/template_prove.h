// SPDX-License-Identifier: MIT
/* jobs/template_prove.h - do other engines render a template as hone does? */
#ifndef HONE_JOBS_TEMPLATE_PROVE_H
#define HONE_JOBS_TEMPLATE_PROVE_H

#include "base/buf.h"
#include "work/work.h"

/* Starts python3, renders the conversations of the linter with the engines it has installed, and
 * adds the table `engines` to m. ERR_SYS without python3. */
int template_prove(const struct work *w, const struct buf *text, struct emit *m, struct err *e);

#endif
