// SPDX-License-Identifier: MIT
/* base/limits.h - how much a stranger's file may claim (base/limits.def), and how much memory of
 * its own a job may take. Both belong to the context that the calling thread works for
 * (base/ctx.h); cli/ sets them before any file is opened. */
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

/* Returns the value in force. */
uint64_t limit_of(enum limit id);
void limits_untrusted(bool on); /* --untrusted: the lower values from now on */

struct limit_row {
    const char *key, *unit, *what;
    uint64_t most, untrusted;
};
const struct limit_row *limit_row(enum limit id);

/* Lets the buffers that this context gets from mem_alloc (base/mem.h) from now on take at most
 * n_bytes together (--max-memory); 0: no limit. Defined in mem.c. */
void mem_limit(uint64_t n_bytes);
/* Gives a context's limit back (base/ctx.c only); NULL is fine. */
struct buf_budget;
void buf_budget_drop(struct buf_budget *b);

#endif
