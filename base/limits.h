// SPDX-License-Identifier: MIT
/* base/limits.h - limits on sizes and counts that untrusted files may claim (base/limits.def), and
 * on the memory that a job may allocate. Both belong to the calling thread's context (base/ctx.h);
 * cli/ sets them before it opens any file. */
#ifndef HONE_BASE_LIMITS_H
#define HONE_BASE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#define LIMIT(ID, key, most, untrusted, unit, what) LIM_##ID,
enum limit {
#include "base/limits.def"
    LIM_COUNT
};
#undef LIMIT

/* Returns the current value of a limit. */
uint64_t limit_of(enum limit id);
void limits_untrusted(bool on); /* --untrusted: switches to the lower limits */

struct limit_row {
    const char *key, *unit, *what;
    uint64_t most, untrusted;
};
/* Returns the table's row for the limit, never NULL. */
const struct limit_row *limit_row(enum limit id);

/* Limits the total size of the buffers that this context allocates with mem_alloc (base/mem.h) to
 * n_bytes (--max-memory); 0: no limit. Defined in mem.c. */
void mem_limit(uint64_t n_bytes);
/* Releases a context's memory limit (base/ctx.c only); NULL is fine. */
struct buf_budget;
/* Gives up one reference and frees the budget after the last; b may be NULL. */
void buf_budget_drop(struct buf_budget *b);

#endif
