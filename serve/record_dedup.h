// SPDX-License-Identifier: MIT
/* serve/record_dedup.h - filter that drops recorded requests which a later one continues. Each
 * request of a tool loop repeats the whole conversation, so the last one contains the others. */
#ifndef HONE_SERVE_RECORD_DEDUP_H
#define HONE_SERVE_RECORD_DEDUP_H

struct record_dedup;
/* Creates a filter that passes lines to `write` in order of arrival. It writes a line when no line
 * has continued it within `seconds`, when lines of more than 64 MiB are waiting, and at the end. */
struct record_dedup *record_dedup_new(double seconds, void (*write)(void *ud, const char *line),
                                      void *ud);
/* Adds a line of a record; now: time in seconds, from a monotonic clock. */
void record_dedup_add(struct record_dedup *l, const char *line, double now);
/* Writes the waiting lines and frees l; NULL is allowed. */
void record_dedup_free(struct record_dedup *l);

#endif
