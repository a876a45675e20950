// SPDX-License-Identifier: MIT
/* core/limits.c - see limits.h. The memory limit is the kernel's (RLIMIT_DATA): it counts every
 * private writable page that was asked for, touched or not, so it errs on the side of too little.
 */
#include "core/limits.h"

#include <stdatomic.h>

#define LIMIT(ID, key, most, untrusted, unit, what) {key, unit, what, most, untrusted},
static const struct limit_row rows[LIM_COUNT] = {
#include "core/limits.def"
};
#undef LIMIT

static atomic_bool lower;

uint64_t limit_of(enum limit id) {
    return atomic_load_explicit(&lower, memory_order_relaxed) ? rows[id].untrusted : rows[id].most;
}

void limits_untrusted(bool on) {
    atomic_store(&lower, on);
}

const struct limit_row *limit_row(enum limit id) {
    return &rows[id];
}
