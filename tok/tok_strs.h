// SPDX-License-Identifier: MIT
/* tok/tok_strs.h - parser for a JSON list of strings, byte for byte.
 *
 * base/json.h refuses U+0000 in strings; texts to tokenize may contain it. */
#ifndef HONE_TOK_TOK_STRS_H
#define HONE_TOK_TOK_STRS_H

#include <stddef.h>

#include "base/err.h"

struct strs { /* zero-initialised: empty */
    char **v; /* each followed by a NUL */
    size_t *len;
    size_t n;
};
/* Parses one list at the start of json; *used is the offset of its end. `what` names the source.
 * Unpaired escaped surrogates become U+FFFD; raw bytes are kept unchanged. */
int strs_parse(struct strs *out, const char *json, size_t len, size_t *used, const char *what,
               struct err *e);
void strs_release(struct strs *a);

#endif
