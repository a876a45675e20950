// SPDX-License-Identifier: MIT
/* serve/names.h - finds one of several served files by a request's `model`. */
#ifndef HONE_SERVE_NAMES_H
#define HONE_SERVE_NAMES_H

#include "base/buf.h"
#include "serve/serve.h"

enum { NAMES_UNKNOWN = -1, NAMES_SEVERAL = -2 };
/* Returns the index of the file that the n bytes at s name, or one of the values above. Case is
 * ignored. In this order: an id, also with a path or .gguf; Ollama's NAME:TAG for NAME-TAG, where
 * NAME may be a repository (hf.co/OWNER/NAME-GGUF) and the tag `latest` is ignored; the end of
 * exactly one id, such as its type (Q4_K_M); the beginning of ids, where `usual` is preferred; then
 * all of this by the files' own names, where --alias gave others. */
int names_find(const struct serve_file *v, int n_files, int usual, const char *s, size_t n);
/* Appends the ids, separated by ", "; of many only the first and the number of the rest. */
void names_list(const struct serve_file *v, int n_files, struct buf *out);

#endif
