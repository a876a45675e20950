// SPDX-License-Identifier: MIT
/* template/jinja_lib.h - functions shared by the library files of the template engine. */
#ifndef HONE_TEMPLATE_JINJA_LIB_H
#define HONE_TEMPLATE_JINJA_LIB_H

#include "template/jinja_int.h"

bool jstr_is_case(struct jval s, bool upper);
struct jval jstr_replace(struct jctx *c, struct jval *v); /* s, old, new, count? */
struct jval jstr_center(struct jctx *c, struct jval *v);  /* s, width, fill? */
/* Returns whether the row is available in the current mode. */
static inline bool jrow_ok(const struct jctx *c, const struct jrow *r) {
    return (r->fn || r->any) && (r->sig[0] != '!' || c->t->lenient);
}

#endif
