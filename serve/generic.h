// SPDX-License-Identifier: MIT
/* serve/generic.h - tools for templates that show none, or write calls in a syntax that is not
 * known: definitions, calls and results become text of the system, the assistant and the user,
 * calls as JSON between <tool_call> and </tool_call>, which many models have seen. Never is a tool
 * dropped without a word. */
#ifndef HONE_SERVE_GENERIC_H
#define HONE_SERVE_GENERIC_H

#include <stdbool.h>

#include "template/chat.h"

/* The row of chat/tool_formats.c that reads and holds such calls. */
#define GENERIC_FORMAT "hermes-json"
/* Returns {"messages"}, JSON text, which the caller frees: the conversation without tools. NULL: it
 * has none, nor, where `hidden` says that the template does not show these, calls or results. */
char *generic_conv(const char *conv, bool hidden);
/* Tells whether a template leaves out calls, or results. */
bool generic_hides_calls(const struct chat *c);
/* Tells whether prompts of a template have the names of tools in them. */
bool generic_shows_tools(const struct chat *c);
/* Tells whether a template tells content that is null from an empty text, and does not write it
 * out: a call without text is given to it as null then. */
bool generic_keeps_null(const struct chat *c);

#endif
