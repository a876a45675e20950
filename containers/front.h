// SPDX-License-Identifier: MIT
/* containers/front.h - the YAML front matter of a model card: the flat subset that cards use. Keys
 * at column 0 with a scalar, a flow list [a, b], or "- item" lines; nested blocks are kept unread.
 */
#ifndef HONE_REPORT_FRONT_H
#define HONE_REPORT_FRONT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

enum { FRONT_MAX_KEYS = 64, FRONT_MAX_VALUES = 512 };
struct front_key {
    const char *key;
    const char *value[FRONT_MAX_VALUES]; /* unquoted */
    int n;
};
struct front {
    struct front_key *key;
    int n;
    size_t end;   /* offset behind the closing line */
    int bad_line; /* front_read: the first line that was not understood; 0: none */
    struct arena arena;
};
/* Reads front matter. ERR_DATA with a line number when there is none, or something that a YAML
 * parser would refuse. */
int front_parse(struct front *f, const char *text, size_t len, struct err *e);
/* Reads that of a stranger's card from which facts are taken: a key that is not understood is
 * left out, tabs are blanks, a byte order mark is skipped. Returns false when there is no front
 * matter. */
bool front_read(struct front *f, const char *text, size_t len);
void front_release(struct front *f);
const struct front_key *front_find(const struct front *f, const char *key); /* NULL: absent */
const char *front_value(const struct front *f, const char *key); /* first value; "": none */
/* Returns the repository a folder was downloaded from, as ORG/NAME, where its path (the Hub's
 * cache) or its card says so; the caller frees it. card may be NULL. NULL when it is not known. */
char *front_repo(const char *dir, const char *card, size_t len);

#endif
