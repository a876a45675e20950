// SPDX-License-Identifier: MIT
/* serve/preset.h - presets: named request settings that a server offers, {"name": {"temperature",
 * ..., "max_tokens", "stop", "kwargs"}}. A request selects one with its member `preset` or in the
 * model's id: "model@name". */
#ifndef HONE_SERVE_PRESET_H
#define HONE_SERVE_PRESET_H

#include "serve/ask.h"

/* Checks all presets of a file. `file` is its name in messages. ERR_USAGE: a preset is invalid; the
 * message names it and the reason. */
int presets_check(const struct json *presets, const char *file, struct err *e);
/* Applies to a the preset that the request `body` names, if any. presets NULL: none are defined.
 * Returns 0, or 400 if the preset does not exist. */
int preset_apply(struct ask *a, const struct json *presets, const struct json *body,
                 struct fault *f);
/* Returns the length of the model's id without "@name", if a preset has that name. */
size_t preset_id_len(const struct json *presets, const char *model);

#endif
