// SPDX-License-Identifier: MIT
/* containers/card_yaml.h - the YAML front matter of a model card, read by libyaml: the keys of its
 * uppermost level with a text or a list of texts. What is nested deeper is not kept, and aliases
 * are refused, so that no text becomes larger than it is. */
#ifndef HONE_CONTAINERS_CARD_YAML_H
#define HONE_CONTAINERS_CARD_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

enum { CARD_YAML_MAX_KEYS = 64, CARD_YAML_MAX_VALUES = 512 };
struct card_yaml_key {
    const char *key;
    const char *value[CARD_YAML_MAX_VALUES]; /* as text: true and 1.0 too */
    int n;
};
struct card_yaml {
    struct card_yaml_key *key;
    int n;
    int bad_line; /* card_yaml_read: line of the first fault, of what was left out; 0: none */
    struct arena arena;
};
/* Reads front matter. ERR_DATA with a line number when there is none, it is no YAML, or a key is
 * there twice. */
int card_yaml_parse(struct card_yaml *c, const char *text, size_t len, struct err *e);
/* Reads the front matter of an untrusted card for its facts: keys and list items that are not
 * valid YAML are left out, tabs are blanks, a byte order mark is skipped. Returns false when there
 * is no front matter. */
bool card_yaml_read(struct card_yaml *c, const char *text, size_t len);
void card_yaml_release(struct card_yaml *c);
/* Returns a key (NULL: it is not there), and its first value ("": there is none). */
const struct card_yaml_key *card_yaml_find(const struct card_yaml *c, const char *key);
const char *card_yaml_value(const struct card_yaml *c, const char *key);
/* Returns the repository a folder was downloaded from, as ORG/NAME, where its path (the Hub's
 * cache) or its card says so; the caller frees it. card may be NULL. NULL when it is not known. */
char *card_repo(const char *dir, const char *card, size_t len);

#endif
