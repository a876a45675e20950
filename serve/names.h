// SPDX-License-Identifier: MIT
/* serve/names.h - which of several files a request's `model` means. */
#ifndef HONE_SERVE_NAMES_H
#define HONE_SERVE_NAMES_H

#include "core/buf.h"
#include "serve/serve.h"

enum { NAMES_UNKNOWN = -1, NAMES_SEVERAL = -2 };
/* Returns the index of the file that the n bytes at s name, or one of the values above. In this
 * order, whatever the case of letters: an id; its path or its name with .gguf; Ollama's NAME:TAG
 * for NAME-TAG, where NAME may be a repository (hf.co/OWNER/NAME-GGUF) and the tag `latest` says
 * nothing; the end of one id only, such as its type (Q4_K_M); the beginning of ids, which means
 * the file `usual` where it is among them. */
int names_find(const struct serve_file *v, int n_files, int usual, const char *s, size_t n);
/* Appends the ids, with ", " between them; of many the first ones and the number of the others. */
void names_list(const struct serve_file *v, int n_files, struct buf *out);

#endif
