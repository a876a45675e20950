// SPDX-License-Identifier: MIT
/* template/own.h - the built-in chat templates (template/own/). */
#ifndef HONE_TEMPLATE_OWN_H
#define HONE_TEMPLATE_OWN_H

#include <stddef.h>

struct own_template {                      /* static storage */
    const char *name, *about, *text, *end; /* *end is 0 */
};
size_t own_len(const struct own_template *t);
const struct own_template *own_at(int i);              /* NULL: no more */
const struct own_template *own_find(const char *name); /* NULL: no such template */
/* Returns the built-in template for the same model family as the given one, `len` bytes of src;
 * NULL: none. */
const struct own_template *own_for(const char *src, size_t len);

#endif
