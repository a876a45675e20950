// SPDX-License-Identifier: MIT
/* base/limits.c - the limits in effect: the defaults, or the stricter ones of --untrusted. */
#include "base/limits.h"

#include "base/ctx.h"

#define LIMIT(ID, key, most, untrusted, unit, what) {key, unit, what, most, untrusted},
static const struct limit_row rows[LIM_COUNT] = {
#include "base/limits.def"
};
#undef LIMIT

uint64_t limit_of(enum limit id) {
    const bool lower = atomic_load_explicit(&ctx_current()->untrusted, memory_order_relaxed);
    return lower ? rows[id].untrusted : rows[id].most;
}

void limits_untrusted(bool on) {
    atomic_store(&ctx_current()->untrusted, on);
}

const struct limit_row *limit_row(enum limit id) {
    return &rows[id];
}
