// SPDX-License-Identifier: MIT
/* jobs/template_prove.h - hone template fix --prove: comparison with other template engines. */
#ifndef HONE_JOBS_TEMPLATE_PROVE_H
#define HONE_JOBS_TEMPLATE_PROVE_H

#include "base/buf.h"
#include "work/work.h"

/* Renders the linter's conversations with the engines installed for python3, and adds the table
 * `engines` to m. ERR_SYS without python3. */
int template_prove(const struct work *w, const struct buf *text, struct emit *m, struct err *e);

#endif
