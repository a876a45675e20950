// SPDX-License-Identifier: MIT
/* base/results_cache.h - append-only cache of measurement results, so that an interrupted
 * measurement resumes without repeating work.
 *
 * A record's key is a hash of everything that its value depends on (model, options, instruction
 * set, the window or case, the program's version), so one file serves several measurements in any
 * order. Every record has a checksum: reading stops at the first bad one, and the file is truncated
 * there, so an incomplete write costs only the last record. Caching is best effort: if a record
 * cannot be written, a warning is logged once and the measurement continues. Memory: 60 bytes per
 * record. */
#ifndef HONE_BASE_RESULTS_CACHE_H
#define HONE_BASE_RESULTS_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct results_cache;
/* Opens or creates the file and locks it. ERR_SYS: locked by another process. ERR_USAGE: not a
 * results cache; such files are never changed. */
int results_cache_open(struct results_cache **out, const char *path, struct err *e);
/* Opens a file read-only, without locking or truncating it. NULL: missing or unusable. */
struct results_cache *results_cache_look(const char *path);
/* Closes the file; `remove` also deletes it. NULL is fine. */
void results_cache_close(struct results_cache *k, bool remove);

/* The records of one kind of measurement. k NULL: nothing is stored or found. */
struct results_cache_of {
    struct results_cache *k;
    const char *what; /* everything the values depend on, except `which` below; borrowed */
};
/* Copies a stored record of n bytes to p. Returns false if none is stored or its length differs. w
 * may be NULL. */
bool results_cache_get(const struct results_cache_of *w, const char *which, void *p, size_t n);
/* Appends the value of a stored record, of any length, to *out. Returns false if none is stored. */
bool results_cache_get_buf(const struct results_cache_of *w, const char *which, struct buf *out);
/* Stores a result; ignores failures and results that are too large. w may be NULL. */
void results_cache_put(const struct results_cache_of *w, const char *which, const void *p,
                       size_t n);

#endif
