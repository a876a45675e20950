// SPDX-License-Identifier: MIT
/* tok/charsmap.h - the table with which SentencePiece normalizes text: rules "these bytes become
 * those", as a double-array trie followed by the replacements. Read only; thread-safe. */
#ifndef HONE_TOK_CHARSMAP_H
#define HONE_TOK_CHARSMAP_H

#include <stddef.h>

#include "base/err.h"

struct charsmap;
/* Makes a table from a copy of the bytes of precompiled_charsmap. ERR_DATA when they are none;
 * `what` names them in the message. */
int charsmap_new(struct charsmap **out, const void *blob, size_t len, const char *what,
                 struct err *e);
void charsmap_free(struct charsmap *m);
/* Finds the longest rule for the beginning of s: returns how many bytes it covers (0: there is
 * none), and sets *to to what they become, NUL-terminated and borrowed. */
size_t charsmap_find(const struct charsmap *m, const char *s, size_t n, const char **to);
/* Returns the *len bytes that it was made of, which m owns. */
const void *charsmap_blob(const struct charsmap *m, size_t *len);

#endif
