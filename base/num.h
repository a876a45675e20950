// SPDX-License-Identifier: MIT
/* base/num.h - integer arithmetic with overflow checks, and rounding, for sizes that come from
 * files. */
#ifndef HONE_BASE_NUM_H
#define HONE_BASE_NUM_H

#include <stdbool.h>
#include <stdint.h>

/* Computes out = a * b. Returns false, leaving *out unchanged, on overflow. */
static inline bool mul_ok(uint64_t a, uint64_t b, uint64_t *out) {
    if (a != 0 && b > UINT64_MAX / a) return false;
    *out = a * b;
    return true;
}

/* Computes out = a + b. Returns false, leaving *out unchanged, on overflow. */
static inline bool add_ok(uint64_t a, uint64_t b, uint64_t *out) {
    if (b > UINT64_MAX - a) return false;
    *out = a + b;
    return true;
}

/* Computes out = a * b for element counts: both >= 0, result <= INT64_MAX. */
static inline bool mul_ok_i64(int64_t a, int64_t b, int64_t *out) {
    if (a < 0 || b < 0 || (a != 0 && b > INT64_MAX / a)) return false;
    *out = a * b;
    return true;
}

/* Returns the smallest multiple of `to` (a power of two) that is >= x; it must fit in 64 bits. */
static inline uint64_t round_up(uint64_t x, uint64_t to) {
    return (x + to - 1) & ~(to - 1);
}

static inline int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline uint64_t min_u64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}
static inline uint64_t max_u64(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}
static inline int64_t max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static inline int64_t div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

#endif
