// SPDX-License-Identifier: MIT
/* kernels/bench.h - random blocks, and timing of individual kernels, for `hone bench-kernels`,
 * `hone doctor` and tests/kern/check.c. */
#ifndef HONE_KERNELS_BENCH_H
#define HONE_KERNELS_BENCH_H

#include "base/rng.h"
#include "kernels/kern.h"

/* Returns the number of half-precision fields in a block of type t (0 to 2). kern_set_half
 * stores one. */
int kern_n_halves(enum qtype t);
void kern_set_half(enum qtype t, void *blk, int field, uint16_t bits);
/* Fills n_blocks valid blocks with uniformly random codes and small scales; half-precision fields
 * are set so that weights are about 0.02. */
void kern_random_blocks(enum qtype t, struct rng *r, void *dst, int64_t n_blocks);
/* Fills n values of a float type from a normal distribution with standard deviation 0.02. */
void kern_random_floats(enum qtype t, struct rng *r, void *dst, int64_t n);

struct kern_rate {
    double decode_gbs; /* 10^9 bytes of blocks decoded per second */
    double decode_gws; /* 10^9 weights decoded per second */
    /* 10^9 bytes of weight blocks per second, with activations in the cache. */
    double dot_gbs;
    /* GB/s for packed rows and one token; 0: no packed form. */
    double packed_gbs;
    double packed4_gbs;  /* GB/s for packed rows and four tokens */
    double packed_gmacs; /* 10^9 multiply-adds per second, packed rows and 64 tokens */
    /* Root mean square of those products: about 1 if blocks resemble those of models. */
    double packed_rms;
};
/* Measures all rates of a type, each for about `seconds`, and keeps the best of several runs.
 * Uses 64 rows of 2048 weights, which fit into L2. */
void kern_bench_type(const struct kern *k, enum qtype t, double seconds, struct kern_rate *out);
/* Returns the speed of gemm_f32 for m tokens and n rows of kk weights, in 10^9 floating-point
 * operations per second. */
double kern_bench_gemm(const struct kern *k, int64_t m, int64_t n, int64_t kk, double seconds);

#endif
