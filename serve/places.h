// SPDX-License-Identifier: MIT
/* serve/places.h - index of calls or results by their ids. Clients choose both, so finding one must
 * be quick however many there are. */
#ifndef HONE_SERVE_PLACES_H
#define HONE_SERVE_PLACES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"

struct placement {
    const char *id; /* borrowed */
    int at;         /* its place in the request */
    const struct json *item;
};
struct places { /* zeros: empty */
    struct placement *v;
    size_t n, cap;
    bool sorted; /* by id, then by place */
};
/* Adds an item; without an id (NULL) it is left out. */
void places_add(struct places *p, const char *id, const struct json *item, int at);
/* Returns the first item with this id at place `from` or later; NULL: none, or id is NULL. Borrowed
 * until the next places_add(). */
const struct placement *places_find(struct places *p, const char *id, int from);
/* Removes all items. */
void places_clear(struct places *p);
void places_release(struct places *p);

#endif
