// SPDX-License-Identifier: MIT
/* base/rng.h - splitmix64 generator: seeded, identical on all machines. Not for secrets. */
#ifndef HONE_BASE_RNG_H
#define HONE_BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t s;
};
static inline void rng_seed(struct rng *r, uint64_t seed) {
    r->s = seed;
}
static inline uint64_t rng_u64(struct rng *r) {
    uint64_t z = (r->s += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
/* Returns a uniform number in [0, 1). */
static inline double rng_unit(struct rng *r) {
    return (double)(rng_u64(r) >> 11) * 0x1p-53;
}
static inline float rng_f32(struct rng *r, float lo, float hi) {
    return lo + (hi - lo) * (float)rng_unit(r);
}
/* Returns the sum of 12 uniform numbers minus 6 (mean 0, standard deviation 1), computed with exact
 * operations only. */
static inline float rng_normal(struct rng *r) {
    double s = -6.0;
    for (int i = 0; i < 12; i++) s += rng_unit(r);
    return (float)s;
}

#endif
