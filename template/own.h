// SPDX-License-Identifier: MIT
/* template/own.h - the chat templates of template/own/, which are part of the binary. */
#ifndef HONE_TEMPLATE_OWN_H
#define HONE_TEMPLATE_OWN_H

#include <stddef.h>

struct own_template {                      /* borrowed, forever */
    const char *name, *about, *text, *end; /* *end is 0 */
};
size_t own_len(const struct own_template *t);
const struct own_template *own_at(int i);              /* NULL: no more */
const struct own_template *own_find(const char *name); /* NULL: no such template */
/* Returns the template of ours that renders what this template, `len` bytes of src, is meant to
 * render; NULL when none does. */
const struct own_template *own_for(const char *src, size_t len);

#endif
