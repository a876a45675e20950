// SPDX-License-Identifier: MIT
/* tok/charsmap.h - the table with which SentencePiece normalizes text: rules "these bytes become
 * those", as a double-array trie followed by the replacements. Read only; thread-safe. */
#ifndef HONE_TOK_CHARSMAP_H
#define HONE_TOK_CHARSMAP_H

#include <stddef.h>

#include "core/err.h"

struct charsmap;
/* From a copy of the bytes of precompiled_charsmap. ERR_DATA when they are none; `what` names them.
 */
int charsmap_new(struct charsmap **out, const void *blob, size_t len, const char *what,
                 struct err *e);
void charsmap_free(struct charsmap *m);
/* Longest rule for the beginning of s: how many bytes it covers (0: there is none) and what they
 * become, NUL-terminated, borrowed. */
size_t charsmap_find(const struct charsmap *m, const char *s, size_t n, const char **to);
/* The bytes that it was made of. */
const void *charsmap_blob(const struct charsmap *m, size_t *len);

#endif
