// SPDX-License-Identifier: MIT
/* serve/latest.h - of lines of a record, those that no later line continues: a loop of tool calls
 * asks with all that was said before, so its last line holds the others. */
#ifndef HONE_SERVE_LATEST_H
#define HONE_SERVE_LATEST_H

struct latest;
/* Makes one that hands lines on to `write`, in the order in which they came: a line when nothing
 * continued it for `seconds`, when more than 64 MiB wait, or at the end. */
struct latest *latest_new(double seconds, void (*write)(void *ud, const char *line), void *ud);
/* Takes a line of a record; now: seconds of a clock that never goes back. */
void latest_add(struct latest *l, const char *line, double now);
/* Hands on what waits, and frees l; NULL is no error. */
void latest_free(struct latest *l);

#endif
