// SPDX-License-Identifier: MIT
/* containers/card_yaml.h - YAML front matter of a model card, parsed with libyaml. Keeps top-level
 * keys whose value is a string or a list of strings, and drops deeper levels. Aliases are refused,
 * so that a small text cannot expand to a huge one. */
#ifndef HONE_CONTAINERS_CARD_YAML_H
#define HONE_CONTAINERS_CARD_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

enum { CARD_YAML_MAX_KEYS = 64, CARD_YAML_MAX_VALUES = 512 };
struct card_yaml_key {
    const char *key;
    const char *value[CARD_YAML_MAX_VALUES]; /* as text, also true and 1.0 */
    int n;
};
struct card_yaml {
    struct card_yaml_key *key;
    int n;
    int bad_line; /* card_yaml_read: line of the first fault that was skipped; 0: none */
    struct arena arena;
};
/* Parses front matter. ERR_DATA, with a line number: it is missing or not valid YAML, or a key is
 * repeated. */
int card_yaml_parse(struct card_yaml *c, const char *text, size_t len, struct err *e);
/* Reads the front matter of an untrusted card leniently: drops keys and list items that are not
 * valid YAML, treats tabs as blanks and skips a byte order mark. Returns false if there is no front
 * matter. */
bool card_yaml_read(struct card_yaml *c, const char *text, size_t len);
void card_yaml_release(struct card_yaml *c);
/* Returns a key (NULL: absent), and its first value ("": none). */
const struct card_yaml_key *card_yaml_find(const struct card_yaml *c, const char *key);
/* Returns the key's first value; "": missing or without values. */
const char *card_yaml_value(const struct card_yaml *c, const char *key);
/* Returns the repository from which a folder was downloaded, as ORG/NAME (the caller frees it),
 * according to the folder's path (in the Hub's cache) or its card, which may be NULL. NULL:
 * unknown. */
char *card_repo(const char *dir, const char *card, size_t len);
/* Returns whether a name looks like a hash. Folders and files in the Hub's cache have such names;
 * models do not. */
bool card_is_hash(const char *name);

#endif
