// SPDX-License-Identifier: MIT
/* serve/custom_tools.h - custom tools, whose input is free text, and tools in namespaces. Templates
 * see a custom tool as a function with one parameter, `input`, and a namespaced tool as
 * "NAMESPACE.NAME". */
#ifndef HONE_SERVE_CUSTOM_TOOLS_H
#define HONE_SERVE_CUSTOM_TOOLS_H

#include "serve/ask.h"

/* Writes the function that represents a custom tool. t: {"name", "description", "format"}. The
 * format is free text or a grammar (`regex` or `lark`), which then constrains calls (ask.held). */
int custom_tool_define(struct ask *a, struct jw *w, const struct json *t, const char *path,
                       struct fault *f);
/* Returns whether the request declares `name` as a custom tool. */
bool custom_tool_is(const struct ask *a, const char *name);
/* Appends the input text from a call's arguments, which may be incomplete. */
void custom_tool_input(const struct buf *args, struct buf *out);
/* Appends the arguments that represent an input text. */
void custom_tool_arguments(const char *input, struct buf *out);

/* Returns the namespace at the start of a tool's name (NAMESPACE.NAME), and sets *n to its length
 * in bytes. Returns NULL if the name has no namespace. */
const char *custom_tool_space(const struct ask *a, const char *name, size_t *n);

#endif
