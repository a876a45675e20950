// SPDX-License-Identifier: MIT
/* runtime/measure/choices_int.h - what the builders of choice tasks share. */
#ifndef HONE_RUNTIME_MEASURE_CHOICES_INT_H
#define HONE_RUNTIME_MEASURE_CHOICES_INT_H

#include "runtime/measure/choices.h"

/* Adds a task of n empty sequences and returns it; it is valid until the next one is added. */
struct choice_task *choices_add(struct choice_tasks *c, int n, int right);
/* Adds the tokens of a + b + c to out. */
int choices_encode(const struct tok *tok, const char *a, const char *b, const char *c,
                   struct ids *out, struct err *e);
/* Completes a task: finds `common`; where first or end is 0, all behind it is scored. Fails when
 * nothing would be scored. */
int choices_finish(struct choice_tasks *c, struct choice_task *t, const char *what, struct err *e);

#endif
