// SPDX-License-Identifier: MIT
/* serve/generic.h - generic tool calling for templates that do not render tools or whose call
 * syntax is unknown. Definitions, calls and results become text of the system, assistant and user
 * messages. Calls are JSON between <tool_call> and </tool_call>, which many models know. No tool is
 * dropped silently. */
#ifndef HONE_SERVE_GENERIC_H
#define HONE_SERVE_GENERIC_H

#include <stdbool.h>

#include "template/chat.h"

/* The format (chat/tool_formats.c) that parses and constrains such calls. */
#define GENERIC_FORMAT "hermes-json"
/* Returns the conversation rewritten without tools: {"messages"}, JSON text that the caller frees.
 * hidden: the template does not render calls or results either, so these are rewritten too. NULL:
 * there is nothing to rewrite. */
char *generic_conv(const char *conv, bool hidden);
/* Returns whether the template leaves out calls or their results. */
bool generic_hides_calls(const struct chat *c);
/* Returns whether the template renders the names of tools. */
bool generic_shows_tools(const struct chat *c);
/* Returns whether the template distinguishes null content from an empty string without printing
 * "null" or the like. If so, calls without text are passed with null content. */
bool generic_keeps_null(const struct chat *c);

#endif
