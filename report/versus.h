// SPDX-License-Identifier: MIT
/* report/versus.h - results of `hone versus` as Markdown: a comparison of files with their base
 * (docs/formats/versus.md). The documents may come from other people, so texts are escaped. */
#ifndef HONE_REPORT_VERSUS_H
#define HONE_REPORT_VERSUS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/doc.h"
#include "base/err.h"
#include "report/release.h"
#include "report/result.h"

/* Reads a document of `hone versus --json`; free *out with cJSON_Delete. ERR_DATA: not one. */
int versus_read(cJSON **out, const char *path, struct err *e);
/* Returns ERR_DATA unless the tree is a document of hone versus; `path` names it in the message. */
int versus_check(const cJSON *root, const char *path, struct err *e);
/* Sets *out to the loss of the release's own files, as far as they were compared; result_close it.
 * Returns false if none was. */
bool versus_result(struct result *out, const struct release *rel, const cJSON *root);
/* Returns whether cache and activations were exact, so that only the weights differ. */
bool versus_exact(const cJSON *root);
/* Returns whether all cases of the suites offered tools, so that the answers counted under "tools"
 * are tool calls. */
bool versus_calls_only(const cJSON *root);
/* Appends the block: a table of files, what changes, pairs of equal size, the missing measurements,
 * and the command. */
void versus_markdown(const cJSON *root, struct buf *out);

#endif
