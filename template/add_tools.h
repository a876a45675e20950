// SPDX-License-Identifier: MIT
/* template/add_tools.h - tools for a template that renders none, which its model was not trained
 * for. */
#ifndef HONE_TEMPLATE_ADD_TOOLS_H
#define HONE_TEMPLATE_ADD_TOOLS_H

#include "base/buf.h"
#include "base/err.h"

/* Appends the template with a beginning that lists tools in the system message (or in the first
 * user's, where there is no system message) and writes calls and results as JSON in tags, a syntax
 * that chat/ reads. Conversations without them render as before. ERR_DATA for a template that knows
 * tools. */
int template_add_tools(const char *src, size_t len, const char *name, struct buf *out,
                       struct err *e);

#endif
