// SPDX-License-Identifier: MIT
/* base/writer.h - background writer thread.
 *
 * The caller fills one of a fixed number of buffers, queues it and takes the next; it blocks while
 * all of them are waiting to be written. Buffers are written one at a time, in queue order. Memory:
 * the buffers, each as large as the largest request. */
#ifndef HONE_BASE_WRITER_H
#define HONE_BASE_WRITER_H

#include <stdint.h>

#include "base/err.h"

enum { WRITER_BUFFERS = 3 };

struct writer;
/* Starts a writing thread; *out is NULL on error. */
int writer_new(struct writer **out, struct err *e);
/* Sets *p to a buffer of n bytes, the same one until it is queued. Returns the error of an earlier
 * failed write, as writer_flush does; after such an error nothing more is written. */
int writer_buffer(struct writer *w, uint64_t n, uint8_t **p, struct err *e);
/* Writes the first n bytes of a buffer, on the writer thread; ctx and tag as for
 * writer_put. */
typedef int (*writer_fn)(void *ctx, int64_t tag, const uint8_t *p, uint64_t n, struct err *e);
/* Hands over the buffer just filled with n bytes; the thread calls fn with ctx and tag. */
void writer_put(struct writer *w, uint64_t n, writer_fn fn, void *ctx, int64_t tag);
/* Waits until everything is written. */
int writer_flush(struct writer *w, struct err *e);
/* Frees the writer, after waiting like writer_flush unless a write failed. NULL is fine. */
void writer_free(struct writer *w);

#endif
