// SPDX-License-Identifier: MIT
/* kernels/blas.h - OpenBLAS for large float products, loaded at run time.
 *
 * OpenBLAS is optional: without it, and for all uses not listed below, the kernels of kern.h run.
 * It picks its kernels by processor, so it only computes sums whose bits depend on the machine
 * anyway: moments and gradients. It is never used where a row's bits must not depend on the rest of
 * the batch (eval, run, serve, importance), or where output must be identical on every machine.
 * docs/design/machines.md lists the uses. */
#ifndef HONE_KERNELS_BLAS_H
#define HONE_KERNELS_BLAS_H

#include "kernels/kern.h"

/* Uses that may replace our kernels; a trial decides on each (work/blas_choice.h). */
enum blas_use {
    BLAS_ROWS_16,  /* products with 16 or more rows */
    BLAS_ROWS_64,  /* products with 48 or more rows */
    BLAS_ROWS_512, /* products with 256 or more rows */
    BLAS_BACK,     /* gradients with respect to the inputs of products */
    BLAS_MOMENTS,  /* second moments */
    BLAS_USES
};
/* BLAS_TILE: rows and columns of moments that one call updates. BLAS_LEAST_ROWS: fewest rows of a
 * text for which moments use OpenBLAS. */
enum { BLAS_TILE = 256, BLAS_LEAST_ROWS = 64 };

struct blas_use_info {
    const char *name; /* "rows_16" */
    int64_t m, n, k;  /* size of the product to check and time */
    bool back, adds;  /* C = A B^T, or A B if back; adds: C += instead */
};
extern const struct blas_use_info blas_uses[BLAS_USES];

/* Loads OpenBLAS on the first call and compares its products with ours. Returns NULL if it is
 * usable, otherwise a sentence with the reason. Sets the library's thread count to 1, because our
 * threads call it in parallel. Ignores a copy of the library that the process loaded earlier. */
const char *blas_open(void);
/* Returns OpenBLAS's version, build and core, such as "OpenBLAS 0.3.21 ... Cooperlake"; "" if not
 * loaded. */
const char *blas_config(void);
/* Returns the maximum number of threads that may call OpenBLAS concurrently. */
int blas_most_threads(void);
/* Times each use with k's kernels and with OpenBLAS, on one thread, for about a quarter of a second
 * in total. Results are in 10^9 floating-point operations per second. Call only after blas_open
 * returned NULL. */
void blas_trial(const struct kern *k, double ours[BLAS_USES], double theirs[BLAS_USES]);
/* Returns the set of uses (bits 1 << use) for which OpenBLAS is at least 1.1 times as fast. */
unsigned blas_faster(const double ours[BLAS_USES], const double theirs[BLAS_USES]);

/* Returns `uses` if blas_open succeeds, otherwise 0. */
unsigned blas_let(unsigned uses);
static inline bool blas_does(unsigned uses, enum blas_use use) {
    return uses >> use & 1;
}
/* Computes C[m][n] = A[m][k] . B[n][k]^T like k->gemm_f32, with OpenBLAS if `uses` contains the use
 * for this size. */
void blas_product(const struct kern *k, unsigned uses, const float *a, int64_t lda, const float *b,
                  int64_t ldb, float *c, int64_t ldc, int64_t m, int64_t n, int64_t kk);
/* Adds A . B (for BLAS_BACK) or A . B^T (for other uses) to C. Only for uses that blas_let()
 * allowed. */
void blas_add(enum blas_use use, const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
              int64_t ldc, int64_t m, int64_t n, int64_t kk);

#endif
