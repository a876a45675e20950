// SPDX-License-Identifier: MIT
/* serve/custom_tools.h - tools that take a text as it is, and tools within a namespace. To
 * templates the former are functions with one parameter, `input`; the latter have both names, with
 * a point. */
#ifndef HONE_SERVE_CUSTOM_TOOLS_H
#define HONE_SERVE_CUSTOM_TOOLS_H

#include "serve/ask.h"

/* Writes the function that a custom tool is. t: {"name", "description", "format"}; the format is a
 * text, or a grammar: `regex` or `lark`, which then holds the calls (ask.held). */
int custom_tool_define(struct ask *a, struct jw *w, const struct json *t, const char *path,
                       struct fault *f);
bool custom_tool_is(const struct ask *a, const char *name);
/* Appends the text that arguments, complete or not, give so far. */
void custom_tool_input(const struct buf *args, struct buf *out);
/* Appends the arguments that stand for a text. */
void custom_tool_arguments(const char *input, struct buf *out);

/* Returns the namespace of a tool's name, of *n bytes; what follows it and a point is the tool's
 * own name. NULL when it has none. */
const char *custom_tool_space(const struct ask *a, const char *name, size_t *n);

#endif
