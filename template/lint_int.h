// SPDX-License-Identifier: MIT
/* template/lint_int.h - what the files of the linter share. */
#ifndef HONE_TEMPLATE_LINT_INT_H
#define HONE_TEMPLATE_LINT_INT_H

#include "template/chat_vars.h"
#include "template/lint.h"

void lint_found(struct lint_report *r, const struct lint_finding *f); /* f is copied */
/* Adds the findings that the syntax tree tells (lint_tree.c). */
void lint_tree(struct lint_report *r, const struct jinja *t);
/* Sets line and col of *f to where the template first reads a variable; they stay when it does not.
 */
void lint_where_name(struct lint_finding *f, const struct jinja *t, struct jval name);

/* Each function of lint_where.c renders the case again and sets line and col of *f, or leaves them
 * as they are when the rendering does not tell. */
/* Sets them to the place of what wrote byte `at` of the output (the last byte when there are
 * fewer). */
void lint_where_byte(const struct jinja *t, const struct chat_case *k, size_t at,
                     struct lint_finding *f);
/* Sets them to the place of the expression that last held the text, for texts that are lost: where
 * the template had it, or the message around it, in its hands for the last time. */
void lint_where_held(const struct jinja *t, const struct chat_case *k, struct jval text,
                     struct lint_finding *f);

#endif
