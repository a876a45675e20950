// SPDX-License-Identifier: MIT
/* base/writer.h - a thread that writes while others compute.
 *
 * A fixed number of buffers goes round: the caller fills one, puts it into the queue and takes the
 * next, which waits when all are still to be written. Buffers are written one at a time, in the
 * order they were put. Memory: the buffers, each as large as the most that was asked for. */
#ifndef HONE_BASE_WRITER_H
#define HONE_BASE_WRITER_H

#include <stdint.h>

#include "base/err.h"

enum { WRITER_BUFFERS = 3 };

struct writer;
int writer_new(struct writer **out, struct err *e);
/* Gives a buffer of n bytes, the same one until it is put. It gives the error of a write that
 * failed meanwhile, as writer_flush does; nothing more is written after that. */
int writer_buffer(struct writer *w, uint64_t n, uint8_t **p, struct err *e);
/* Takes the first n bytes of a buffer; ctx and tag are as they were put. The thread calls it. */
typedef int (*writer_fn)(void *ctx, int64_t tag, const uint8_t *p, uint64_t n, struct err *e);
void writer_put(struct writer *w, uint64_t n, writer_fn fn, void *ctx, int64_t tag);
/* Waits until everything is written. */
int writer_flush(struct writer *w, struct err *e);
/* Waits too, unless a write failed. NULL is fine. */
void writer_free(struct writer *w);

#endif
