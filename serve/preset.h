// SPDX-License-Identifier: MIT
/* serve/preset.h - named settings that a server offers: {"name": {"temperature", ..., "max_tokens",
 * "stop", "kwargs"}}. A request names one as `preset`, or behind the model's id: "model@name". */
#ifndef HONE_SERVE_PRESET_H
#define HONE_SERVE_PRESET_H

#include "serve/ask.h"

/* Checks all presets of a file, whose name is for messages. ERR_USAGE names the preset and what is
 * wrong with it. */
int presets_check(const struct json *presets, const char *file, struct err *e);
/* Sets in a what the preset says that the request `body` names; nothing when it names none. Returns
 * 0, or 400 when there is no such preset. presets NULL: there are none. */
int preset_apply(struct ask *a, const struct json *presets, const struct json *body,
                 struct fault *f);
/* Returns the bytes of a model's id in front of "@name", where that is a preset. */
size_t preset_id_len(const struct json *presets, const char *model);

#endif
