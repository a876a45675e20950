// SPDX-License-Identifier: MIT
/* base/results_cache.h - what was measured, kept as it comes, so that it is not measured again
 * after an interruption.
 *
 * A file of records that only grows. A record has the hash of a text that says everything its value
 * depends on (model, options, instruction set, and which window or case it is), so one file serves
 * several measurements, in any order; the program's version is always part of it. Every record has
 * a check: reading stops at the first bad one and the file is cut there, so a torn end costs the
 * last record only. Keeping is a service: when a record cannot be written, that is said once and
 * the measurement goes on. Memory: 60 bytes per record. */
#ifndef HONE_BASE_RESULTS_CACHE_H
#define HONE_BASE_RESULTS_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct results_cache;
/* Opens or makes the file, and locks it: ERR_SYS when another process has it. ERR_USAGE when it
 * holds something else: a file of others is never changed. */
int results_cache_open(struct results_cache **out, const char *path, struct err *e);
/* Opens a file to look at it only: nothing is locked, kept or cut. NULL when it is not there or
 * cannot be used. */
struct results_cache *results_cache_look(const char *path);
/* Closes it. With `remove` nothing of it is needed any more. NULL is fine. */
void results_cache_close(struct results_cache *k, bool remove);

/* Where values of one kind are kept. k NULL: nothing is kept and nothing is known. */
struct results_cache_of {
    struct results_cache *k;
    const char *what; /* all that the values depend on but for `which` below; borrowed */
};
/* Gets the n bytes that were kept into p. Returns false when there is no record of this length.
 * w may be NULL. */
bool results_cache_get(const struct results_cache_of *w, const char *which, void *p, size_t n);
/* Appends a record of any length. */
bool results_cache_get_buf(const struct results_cache_of *w, const char *which, struct buf *out);
void results_cache_put(const struct results_cache_of *w, const char *which, const void *p,
                       size_t n);

#endif
