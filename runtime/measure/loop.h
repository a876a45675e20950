// SPDX-License-Identifier: MIT
/* runtime/measure/loop.h - tools in loops: a small simulated world that answers a model's calls, so
 * that a case can have several steps and is judged by the state it ends in (docs/formats/suite.md).
 *
 * Results depend only on the calls and the state, never on time or chance. */
#ifndef HONE_RUNTIME_MEASURE_LOOP_H
#define HONE_RUNTIME_MEASURE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

struct suite_case;
struct loop;
enum { LOOP_STEPS = 8, LOOP_MAX_STEPS = 64 }; /* answers of a case: default and maximum */

/* Returns ERR_DATA, naming the line `what`, if a case's "loop" is malformed. */
int loop_check(const struct suite_case *c, const char *what, struct err *e);
/* Returns the world of a case at its start; it borrows from the case. */
struct loop *loop_new(const struct suite_case *c);
void loop_free(struct loop *l);
/* Returns the largest number of answers of a case. */
int loop_steps(const struct suite_case *c);
/* Returns an upper bound of the tokens that a case adds to its prompt, if answers have at most
 * max_tokens. */
int64_t loop_room(const struct suite_case *c, int64_t max_tokens);
/* Appends the result of a call, as JSON text, and changes the state. A call that is not valid for
 * the offered tools, or that nothing matches, has an error as its result. *valid: whether it was
 * valid. */
int loop_call(struct loop *l, const struct json *call, struct buf *result, bool *valid,
              struct err *e);
/* Returns the next message of the user, borrowed, or NULL after the last one. */
const char *loop_user(struct loop *l);
/* Returns whether the state has what the goal demands; if not, appends what is missing. */
bool loop_reached(const struct loop *l, struct buf *why);

#endif
