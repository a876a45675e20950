// SPDX-License-Identifier: MIT
/* tok/charsmap.h - SentencePiece's normalization table: replacement rules for byte sequences,
 * stored as a double-array trie followed by the replacements. Read-only and thread-safe. */
#ifndef HONE_TOK_CHARSMAP_H
#define HONE_TOK_CHARSMAP_H

#include <stddef.h>

#include "base/err.h"

struct charsmap;
/* Creates a table from a copy of precompiled_charsmap. ERR_DATA: not a valid table; the message
 * names `what`. */
int charsmap_new(struct charsmap **out, const void *blob, size_t len, const char *what,
                 struct err *e);
void charsmap_free(struct charsmap *m);
/* Finds the longest rule that matches the start of s. Returns the number of bytes it covers (0: no
 * rule) and sets *to to the replacement, NUL-terminated and borrowed. */
size_t charsmap_find(const struct charsmap *m, const char *s, size_t n, const char **to);
/* Returns the table's *len source bytes, owned by m. */
const void *charsmap_blob(const struct charsmap *m, size_t *len);

#endif
