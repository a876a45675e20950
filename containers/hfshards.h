// SPDX-License-Identifier: MIT
/* containers/hfshards.h - weight files of a Hugging Face folder: those named by
 * model.safetensors.index.json, or without an index model*.safetensors. Files named
 * consolidated*.safetensors, a different layout of the same weights, are never read. Internal to
 * hfdir.c. */
#ifndef HONE_CONTAINERS_HFSHARDS_H
#define HONE_CONTAINERS_HFSHARDS_H

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"

#define HF_INDEX "model.safetensors.index.json"

/* Lists the folder's weight files in *l, sorted; with `consumed` also those of which only
 * NAME.consumed is left. Sets *index to the parsed index, which the caller
 * frees; NULL: none. ERR_DATA: files are missing, belong to two sets, or have an unsupported
 * format. The caller releases *l, even after an error. */
int hfshards_list(const char *dir, bool consumed, struct io_names *l, struct json **index,
                  struct err *e);
/* Returns ERR_DATA for a folder without config.json; the message reports what it contains
 * instead. */
int hfshards_no_config(const char *dir, struct err *e);

#endif
