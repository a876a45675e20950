// SPDX-License-Identifier: MIT
/* serve/names.h - lookup of the served file that a request names in `model`. */
#ifndef HONE_SERVE_NAMES_H
#define HONE_SERVE_NAMES_H

#include "base/buf.h"
#include "serve/serve.h"

enum { NAMES_UNKNOWN = -1, NAMES_SEVERAL = -2 };
/* Returns the index of the file named by the n bytes at s, or one of the values above. Ignores
 * case. Tries in this order: an id, even with a path before it or .gguf after it; Ollama's NAME:TAG
 * for NAME-TAG, where NAME may be a repository (hf.co/OWNER/NAME-GGUF) and the tag `latest` is
 * ignored; a suffix of exactly one id, such as its type (Q4_K_M); a prefix of ids, where `usual`
 * wins if several match. Then tries the same with the files' own names, for files renamed by
 * --alias. */
int names_find(const struct serve_file *v, int n_files, int usual, const char *s, size_t n);
/* Appends the ids, separated by ", "; if there are many, only the first ones and how many more
 * there are. */
void names_list(const struct serve_file *v, int n_files, struct buf *out);

#endif
