// SPDX-License-Identifier: MIT
/* kernels/bench.h - random blocks and timing of single kernels, for `hone bench-kernels`, the
 * doctor and tests/kern/check.c. */
#ifndef HONE_KERNELS_BENCH_H
#define HONE_KERNELS_BENCH_H

#include "core/rng.h"
#include "kernels/kern.h"

/* Half-precision fields in a block of type t (0..2), and storing one. */
int kern_n_halves(enum qtype t);
void kern_set_half(enum qtype t, void *blk, int field, uint16_t bits);
/* Fills n_blocks valid blocks: codes and small scales uniform, halves such that weights are about
 * 0.02. */
void kern_random_blocks(enum qtype t, struct rng *r, void *dst, int64_t n_blocks);
/* The same for a type of floats: n normal values of deviation 0.02. */
void kern_random_floats(enum qtype t, struct rng *r, void *dst, int64_t n);

struct kern_rate {
    double decode_gbs;   /* 10^9 block bytes per second */
    double decode_gws;   /* 10^9 weights per second */
    double dot_gbs;      /* 10^9 weight-block bytes per second, activations in cache */
    double packed_gbs;   /* the same of packed rows and one token; 0: no packed form */
    double packed4_gbs;  /* ... and four tokens */
    double packed_gmacs; /* 10^9 multiply-adds per second of packed rows and 64 tokens */
};
/* Best of several runs, about `seconds` for each number; rows of 2048 weights, 64 rows
 * (in L2). */
void kern_bench_type(const struct kern *k, enum qtype t, double seconds, struct kern_rate *out);
/* 10^9 floating-point operations per second of gemm_f32 for m tokens, n rows of k weights. */
double kern_bench_gemm(const struct kern *k, int64_t m, int64_t n, int64_t kk, double seconds);

#endif
