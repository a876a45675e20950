// SPDX-License-Identifier: MIT
/* tok/tok_strs.h - a JSON list of strings, byte for byte.
 *
 * base/json.h refuses U+0000 in strings; texts to tokenize may hold it. */
#ifndef HONE_TOK_TOK_STRS_H
#define HONE_TOK_TOK_STRS_H

#include <stddef.h>

#include "base/err.h"

struct strs { /* zero-initialised is empty */
    char **v; /* each NUL-terminated behind its bytes */
    size_t *len;
    size_t n;
};
/* Reads one list from the start of json; *used is where it ends. `what` names the source. Escaped
 * surrogates without a partner become U+FFFD; raw bytes are taken as they are. */
int strs_parse(struct strs *out, const char *json, size_t len, size_t *used, const char *what,
               struct err *e);
void strs_release(struct strs *a);

#endif
