// SPDX-License-Identifier: MIT
/* cli/hub.h - an argument that is the name of a model on a hub, or an address: hone reads files
 * only, and says how to get them. */
#ifndef HONE_CLI_HUB_H
#define HONE_CLI_HUB_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"

/* Tells whether `given` is no path that exists, and is written like ORG/NAME, ORG/NAME:QUANT,
 * NAME:TAG, or an address with "://" or of a hub; or, as the first argument, like NAME alone:
 * Qwen3-4B. Then `say` gets a sentence with what to do; `command` is the word after hone, which
 * decides between a whole folder and GGUF files. */
bool hub_name(const char *given, bool first, const char *command, char *say, size_t cap);

#endif
