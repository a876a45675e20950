// SPDX-License-Identifier: MIT
/* serve/record_dedup.h - of lines of a record, those that no later line continues: a loop of tool
 * calls asks with all that was said before, so its last line holds the others. */
#ifndef HONE_SERVE_RECORD_DEDUP_H
#define HONE_SERVE_RECORD_DEDUP_H

struct record_dedup;
/* Makes one that hands lines on to `write`, in the order in which they came: a line when nothing
 * continued it for `seconds`, when more than 64 MiB wait, or at the end. */
struct record_dedup *record_dedup_new(double seconds, void (*write)(void *ud, const char *line),
                                      void *ud);
/* Takes a line of a record; now: seconds of a clock that never goes back. */
void record_dedup_add(struct record_dedup *l, const char *line, double now);
/* Hands on what waits, and frees l; NULL is no error. */
void record_dedup_free(struct record_dedup *l);

#endif
