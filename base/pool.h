// SPDX-License-Identifier: MIT
/* base/pool.h - one persistent team of threads and one primitive.
 *
 * The answer must not depend on the thread count: items are split into fixed chunks, and partial
 * results are reduced by the caller in chunk order.
 *
 * Any number of teams may exist, and different ones work independently of each other. One team does
 * one job at a time: a second thread that calls pool_for on it waits until the first job is done. A
 * chunk may call pool_for on its own team; that inner job runs in the chunk's worker alone. */
#ifndef HONE_BASE_POOL_H
#define HONE_BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct pool;
/* Makes a pool, in which the caller's thread is worker 0. n_threads 0: all processors this
 * process may use (base/machine.h). */
int pool_new(struct pool **out, int n_threads, struct err *e);
/* Lets only workers below n take part from the next job on, 1 <= n <= pool_size. It waits for
 * the job of another thread and must not be called from a chunk. */
void pool_use(struct pool *p, int n);
/* Tells whether the number of threads was ours to choose, because n_threads was 0. */
bool pool_is_free(const struct pool *p);
void pool_free(struct pool *p);
int pool_size(const struct pool *p); /* threads, the caller included; NULL pool: 1 */

/* Does items [begin, end) on worker `worker` (0..pool_size-1, an index of private scratch). */
typedef void (*pool_fn)(void *ctx, int64_t begin, int64_t end, int worker);
/* Runs fn over [0, n_items) in chunks of `chunk` items (>= 1), handed out dynamically; returns when
 * all are done. Workers work for the caller's context (base/ctx.h). A NULL pool runs in the caller.
 */
void pool_for(struct pool *p, int64_t n_items, int64_t chunk, pool_fn fn, void *ctx);
/* Copies n bytes like memcpy, by all threads. */
void pool_copy(struct pool *p, void *dst, const void *src, uint64_t n);

#endif
