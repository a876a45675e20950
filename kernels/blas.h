// SPDX-License-Identifier: MIT
/* kernels/blas.h - OpenBLAS for large float products, loaded at run time.
 *
 * Nothing needs it: a machine without it, and every call outside the uses below, takes the kernels
 * of kern.h. It is for sums whose bits depend on the machine anyway, because it chooses its kernels
 * by the processor: moments and gradients. It is never used where a row must have the same bits in
 * any company (session passes of texts) or where the bits of a file are promised on every machine.
 * docs/design/machines.md says who uses it. */
#ifndef HONE_KERNELS_BLAS_H
#define HONE_KERNELS_BLAS_H

#include "kernels/kern.h"

/* What it may do instead of our kernels. A trial decides about each (work/blas_choice.h). */
enum blas_use {
    BLAS_ROWS_16,  /* products with 16 rows or more, */
    BLAS_ROWS_64,  /* 48 or more, */
    BLAS_ROWS_512, /* 256 or more */
    BLAS_BACK,     /* gradients by the inputs of products */
    BLAS_MOMENTS,  /* second moments */
    BLAS_USES
};
/* Rows and columns of moments that one call of OpenBLAS adds, and of moments the fewest rows of a
 * text for which it is called. */
enum { BLAS_TILE = 256, BLAS_LEAST_ROWS = 64 };

struct blas_use_info {
    const char *name; /* "rows_16" */
    int64_t m, n, k;  /* size of the product that is checked and timed */
    bool back, adds;  /* C = A B^T, or A B (back); added to C */
};
extern const struct blas_use_info blas_uses[BLAS_USES];

/* Loads OpenBLAS on the first call and compares its products with ours. Returns NULL if it can be
 * used, otherwise a sentence that says why not. Its thread count is set to 1: our threads call it
 * in parallel. A copy that the process had loaded before is left alone and not used. */
const char *blas_open(void);
/* Returns its version, build and core, "OpenBLAS 0.3.21 ... Cooperlake"; "" if none was loaded. */
const char *blas_config(void);
/* Returns the most threads that may call it at the same time. */
int blas_most_threads(void);
/* Times each use with k's kernels and with OpenBLAS, one thread, in about a quarter of a second;
 * in 10^9 floating-point operations per second. blas_open must have returned NULL. */
void blas_trial(const struct kern *k, double ours[BLAS_USES], double theirs[BLAS_USES]);
/* Returns the set of uses (bits 1 << use) where it is at least 1.1 times as fast. */
unsigned blas_faster(const double ours[BLAS_USES], const double theirs[BLAS_USES]);

/* Returns the set if blas_open succeeds, otherwise 0: nothing. */
unsigned blas_let(unsigned uses);
static inline bool blas_does(unsigned uses, enum blas_use use) {
    return uses >> use & 1;
}
/* Computes C[m][n] = A[m][k] . B[n][k]^T like k->gemm_f32, by OpenBLAS if the set has the use. */
void blas_product(const struct kern *k, unsigned uses, const float *a, int64_t lda, const float *b,
                  int64_t ldb, float *c, int64_t ldc, int64_t m, int64_t n, int64_t kk);
/* Adds a product of a use that blas_let has let: A . B if the use is BLAS_BACK, otherwise A . B^T.
 */
void blas_add(enum blas_use use, const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
              int64_t ldc, int64_t m, int64_t n, int64_t kk);

#endif
