// SPDX-License-Identifier: MIT
/* cli/hub.h - advice for arguments that name a model on a hub, or a URL: hone reads only local
 * files, and prints how to download the model. */
#ifndef HONE_CLI_HUB_H
#define HONE_CLI_HUB_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Returns whether `given` is not an existing path but looks like ORG/NAME, ORG/NAME:QUANT,
 * NAME:TAG, a URL or the address of a hub, or, as the first argument, like the name of a model:
 * Qwen3-4B. If so, writes advice to `say` [cap]. `command`, the word after hone, decides between a
 * whole folder and GGUF files. */
bool hub_name(const char *given, bool first, const char *command, char *say, size_t cap);

#endif
