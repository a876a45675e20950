// SPDX-License-Identifier: MIT
/* containers/hfshards.h - which files of a Hugging Face folder hold its weights: those that
 * model.safetensors.index.json names, else model*.safetensors. consolidated*.safetensors, another
 * layout of the same weights, is never read. Inner to hfdir.c. */
#ifndef HONE_CONTAINERS_HFSHARDS_H
#define HONE_CONTAINERS_HFSHARDS_H

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"

#define HF_INDEX "model.safetensors.index.json"

/* Lists the weight files of the folder in *l, sorted. *index is the parsed index, which the caller
 * frees, or NULL when there is none. ERR_DATA where files are missing, in two sets or in a form
 * that is not read. The caller releases *l, also after an error. */
int hfshards_list(const char *dir, struct io_names *l, struct json **index, struct err *e);
/* Fails with ERR_DATA for a folder without config.json; the message says what it is instead. */
int hfshards_no_config(const char *dir, struct err *e);

#endif
