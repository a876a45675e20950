// SPDX-License-Identifier: MIT
/* core/limits.h - how much a stranger's file may claim (core/limits.def), and how much memory of
 * its own the process may take. Process-wide, set once by cli/ before any file is opened. */
#ifndef HONE_CORE_LIMITS_H
#define HONE_CORE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#define LIMIT(ID, key, most, untrusted, unit, what) LIM_##ID,
enum limit {
#include "core/limits.def"
    LIM_COUNT
};
#undef LIMIT

/* The value in force. */
uint64_t limit_of(enum limit id);
void limits_untrusted(bool on); /* --untrusted: the lower values from now on */

struct limit_row {
    const char *key, *unit, *what;
    uint64_t most, untrusted;
};
const struct limit_row *limit_row(enum limit id);

/* --max-memory: from now on the buffers of buf_alloc (core/mem.h) together take at most n_bytes; 0:
 * no limit. Defined in mem.c. */
void buf_limit(uint64_t n_bytes);

#endif
