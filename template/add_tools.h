// SPDX-License-Identifier: MIT
/* template/add_tools.h - tool support for templates that render no tools. */
#ifndef HONE_TEMPLATE_ADD_TOOLS_H
#define HONE_TEMPLATE_ADD_TOOLS_H

#include "base/buf.h"
#include "base/err.h"

/* Appends the template with a prefix that lists tools in the system message (without one, in the
 * first user message) and writes calls and results as JSON in tags, which chat/ can parse. The
 * model was not trained on this syntax. Conversations without tools are rendered as before.
 * ERR_DATA: the template already renders tools. */
int template_add_tools(const char *src, size_t len, const char *name, struct buf *out,
                       struct err *e);

#endif
