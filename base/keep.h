// SPDX-License-Identifier: MIT
/* base/keep.h - what was measured, kept as it comes, so that it is not measured again after an
 * interruption.
 *
 * A file of records that only grows. A record has the hash of a text that says everything its value
 * depends on (model, options, instruction set, and which window or case it is), so one file serves
 * several measurements, in any order; the program's version is always part of it. Every record has
 * a check: reading stops at the first bad one and the file is cut there, so a torn end costs the
 * last record only. Keeping is a service: when a record cannot be written, that is said once and
 * the measurement goes on. Memory: 60 bytes per record. */
#ifndef HONE_BASE_KEEP_H
#define HONE_BASE_KEEP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct keep;
/* Opens or makes the file, and locks it: ERR_SYS when another process has it. ERR_USAGE when it
 * holds something else: a file of others is never changed. */
int keep_open(struct keep **out, const char *path, struct err *e);
/* Closes it. With `remove` nothing of it is needed any more. NULL is fine. */
void keep_close(struct keep *k, bool remove);

/* Where values of one kind are kept. k NULL: nothing is kept and nothing is known. */
struct keep_of {
    struct keep *k;
    const char *what; /* all that the values depend on but for `which` below; borrowed */
};
/* Gets the n bytes that were kept into p. Returns false when there is no record of this length.
 * w may be NULL. */
bool keep_get(const struct keep_of *w, const char *which, void *p, size_t n);
/* Appends a record of any length. */
bool keep_get_buf(const struct keep_of *w, const char *which, struct buf *out);
void keep_put(const struct keep_of *w, const char *which, const void *p, size_t n);

#endif
