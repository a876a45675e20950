// SPDX-License-Identifier: MIT
/* base/pool.h - thread pool with one primitive, a parallel loop.
 *
 * Results must not depend on the number of threads, so items are split into fixed chunks, and the
 * caller reduces partial results in chunk order.
 *
 * Any number of pools may exist, and they work independently. One pool runs one job at a time: a
 * second thread that calls pool_for on it waits until the first job is done. A chunk may call
 * pool_for on its own pool; that inner job runs on the chunk's worker alone. */
#ifndef HONE_BASE_POOL_H
#define HONE_BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct pool;
/* Creates a pool with the caller's thread as worker 0. n_threads 0: all processors that this
 * process may use (base/machine.h). */
int pool_new(struct pool **out, int n_threads, struct err *e);
/* Restricts the following jobs to workers below n, 1 <= n <= pool_size. Waits for another thread's
 * job; must not be called from a chunk. */
void pool_use(struct pool *p, int n);
/* Returns whether the number of threads was chosen automatically (n_threads was 0). */
bool pool_is_free(const struct pool *p);
void pool_free(struct pool *p);
int pool_size(const struct pool *p); /* threads, including the caller; NULL pool: 1 */

/* Processes items [begin, end) on worker `worker` (0..pool_size-1, an index for private
 * scratch). */
typedef void (*pool_fn)(void *ctx, int64_t begin, int64_t end, int worker);
/* Runs fn over [0, n_items) in chunks of `chunk` items (>= 1), handed out dynamically; returns when
 * all are done. Workers use the caller's context (base/ctx.h). With a NULL pool everything runs in
 * the caller. */
void pool_for(struct pool *p, int64_t n_items, int64_t chunk, pool_fn fn, void *ctx);
/* Copies n bytes like memcpy, using all threads. */
void pool_copy(struct pool *p, void *dst, const void *src, uint64_t n);

#endif
