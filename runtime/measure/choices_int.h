// SPDX-License-Identifier: MIT
/* runtime/measure/choices_int.h - construction of choice tasks; internal to the readers. */
#ifndef HONE_RUNTIME_MEASURE_CHOICES_INT_H
#define HONE_RUNTIME_MEASURE_CHOICES_INT_H

#include "runtime/measure/choices.h"

/* Adds a task of n empty sequences and returns it, borrowed until the next call. */
struct choice_task *choices_add(struct choice_tasks *c, int n, int right);
/* Appends the tokens of the text a + b + c to out. */
int choices_encode(const struct tok *tok, const char *a, const char *b, const char *c,
                   struct ids *out, struct err *e);
/* Completes a task: sets `common` and the defaults of first (0: right after the common prefix) and
 * end (0: end of the sequence). ERR_DATA if a choice has no token to score. */
int choices_finish(struct choice_tasks *c, struct choice_task *t, const char *what, struct err *e);

#endif
