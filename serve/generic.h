// SPDX-License-Identifier: MIT
/* serve/generic.h - generic tool calling for templates that do not render tools or whose call
 * syntax is unknown. Definitions, calls and results become text of the system, assistant and user
 * messages. Calls are JSON between <tool_call> and </tool_call>, a syntax that many models know.
 * This way no tool is dropped silently. */
#ifndef HONE_SERVE_GENERIC_H
#define HONE_SERVE_GENERIC_H

#include <stdbool.h>

#include "template/chat.h"

/* The format (chat/tool_formats.c) that parses and constrains such calls. */
#define GENERIC_FORMAT "hermes-json"
/* Rewrites a conversation so that it needs no tools. Returns {"messages"} as JSON text, freed by
 * the caller, or NULL if there is nothing to rewrite. hidden: the template does not render calls or
 * results either, so they are also rewritten. */
char *generic_conv(const char *conv, bool hidden);
/* Returns whether the template leaves out calls or their results. */
bool generic_hides_calls(const struct chat *c);
/* Returns whether the template renders the tools' names. */
bool generic_shows_tools(const struct chat *c);
/* Returns whether the template treats null content differently from an empty string, and does not
 * just print it as "null" or "None". If so, messages with calls and no text are given null
 * content. */
bool generic_keeps_null(const struct chat *c);

#endif
