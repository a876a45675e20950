// SPDX-License-Identifier: MIT
/* kernels/f32/gemm.h - f32 matrix products, 8 lanes at a time. Included once by an ISA's gemm.c,
 * after its f8.h. C = A B^T has both operands contiguous along k, so nothing is packed.
 *
 * A tile of 3 tokens x 4 weight rows keeps 12 accumulators of 8 partial sums along k: 7 loads feed
 * 12 FMAs. k advances in steps of KB, so that 4 rows of B stay in L1; tokens in steps of MB, so
 * that they stay in L2. An element of C is summed in the same order in every tile (8 lanes over k,
 * hsum, then over the KB steps), so results do not depend on m, n or how the work is split. One
 * core of a Zen 5 EPYC (AVX2), November 2026: about 110 GFLOP/s for 16 tokens or more and 50-65 for
 * 1 or 2. OpenBLAS 0.3.21 (its Haswell kernels) reached 73-110 and 8-15; it is not used here,
 * because its order of sums depends on the machine. */
#include <string.h>

#include "kernels/ops.h"

enum { KB = 1024, MB = 96 };

/* Computes C[0..mr)[0..nr), summed over k, or adds to it. mr*nr <= 12. */
INLINE void tile(int mr, int nr, const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                 int64_t ldc, int64_t k, int add) {
    f8 acc[12];
    UNROLL for (int e = 0; e < mr * nr; e++) acc[e] = f_set(0);
    int64_t p = 0;
    for (; p + 8 <= k; p += 8) {
        f8 av[3];
        UNROLL for (int i = 0; i < mr; i++) av[i] = f_load(a + i * lda + p);
        UNROLL for (int j = 0; j < nr; j++) {
            const f8 bv = f_load(b + j * ldb + p);
            UNROLL for (int i = 0; i < mr; i++) acc[i * nr + j] = f_fma(av[i], bv, acc[i * nr + j]);
        }
    }
    if (p < k) {
        const some m = f_first(k - p);
        UNROLL for (int j = 0; j < nr; j++) {
            const f8 bv = f_load_some(b + j * ldb + p, m);
            UNROLL for (int i = 0; i < mr; i++) acc[i * nr + j] =
                f_fma(f_load_some(a + i * lda + p, m), bv, acc[i * nr + j]);
        }
    }
    UNROLL for (int i = 0; i < mr; i++) {
        float *ci = c + i * ldc;
        UNROLL for (int j = 0; j + 4 <= nr; j += 4) {
            f_store_sums(ci + j, acc + i * nr + j, add);
        }
        UNROLL for (int j = nr / 4 * 4; j < nr; j++) {
            const float v = hsum(acc[i * nr + j]);
            ci[j] = add ? ci[j] + v : v;
        }
    }
}

/* Defines the product of mr tokens with all n rows of B. */
#define STRIP(mr, step)                                                                            \
    static void strip_##mr(const float *a, int64_t lda, const float *b, int64_t ldb, float *c,     \
                           int64_t ldc, int64_t n, int64_t k, int add) {                           \
        int64_t j = 0;                                                                             \
        for (; j + step <= n; j += step)                                                           \
            tile(mr, step, a, lda, b + j * ldb, ldb, c + j, ldc, k, add);                          \
        for (; j < n; j++) tile(mr, 1, a, lda, b + j * ldb, ldb, c + j, ldc, k, add);              \
    }
STRIP(1, 8)
STRIP(2, 6)

/* Multiplies four rows of B by m tokens, three at a time. */
static void panel(const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc,
                  int64_t m, int64_t k, int add) {
    int64_t i = 0;
    for (; i + 3 <= m; i += 3) tile(3, 4, a + i * lda, lda, b, ldb, c + i * ldc, ldc, k, add);
    if (m - i == 2) tile(2, 4, a + i * lda, lda, b, ldb, c + i * ldc, ldc, k, add);
    if (m - i == 1) tile(1, 4, a + i * lda, lda, b, ldb, c + i * ldc, ldc, k, add);
}

static void block(const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc,
                  int64_t m, int64_t n, int64_t k, int add) {
    if (m == 1) {
        strip_1(a, lda, b, ldb, c, ldc, n, k, add);
        return;
    }
    if (m == 2) {
        strip_2(a, lda, b, ldb, c, ldc, n, k, add);
        return;
    }
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) panel(a, lda, b + j * ldb, ldb, c + j, ldc, m, k, add);
    for (; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            tile(1, 1, a + i * lda, lda, b + j * ldb, ldb, c + i * ldc + j, ldc, k, add);
}

static void gemm_f32(const float *restrict a, int64_t lda, const float *restrict b, int64_t ldb,
                     float *restrict c, int64_t ldc, int64_t m, int64_t n, int64_t k) {
    int64_t p = 0;
    kern_check_rows(a, lda, m, k);
    kern_check_rows(b, ldb, n, k);
    kern_check_rows(c, ldc, m, n);
    do { /* runs once even if k = 0, to set C to 0 */
        const int64_t kb = k - p < KB ? k - p : KB;
        for (int64_t i = 0; i < m; i += MB)
            block(a + i * lda + p, lda, b + p, ldb, c + i * ldc, ldc, m - i < MB ? m - i : MB, n,
                  kb, p > 0);
        p += KB;
    } while (p < k);
}

/* ---- C += A B: columns along the lanes ---- A tile of 6 rows x 16 columns: 2 loads of B and 6
 * broadcasts of A feed 12 FMAs. If several tiles read 16 columns of B, the columns are first copied
 * to contiguous memory, because in place they map to few sets of the L1 cache. An element is summed
 * over k in order, in steps of NN_K. */
enum { NN_K = 256, NN_COLS = 16, NN_ROWS = 6 };

INLINE void nn_tile(int mr, bool full, const float *a, int64_t lda, const float *b, int64_t ldb,
                    float *c, int64_t ldc, int64_t k, int64_t n) {
    f8 acc[2 * NN_ROWS];
    UNROLL for (int e = 0; e < 2 * mr; e++) acc[e] = f_set(0);
    const some m0 = f_first(n), m1 = f_first(n - 8);
    for (int64_t p = 0; p < k; p++, b += ldb) {
        const f8 b0 = full ? f_load(b) : f_load_some(b, m0);
        const f8 b1 = full ? f_load(b + 8) : f_load_some(b + 8, m1);
        UNROLL for (int i = 0; i < mr; i++) {
            const f8 av = f_set(a[i * lda + p]);
            acc[2 * i] = f_fma(av, b0, acc[2 * i]);
            acc[2 * i + 1] = f_fma(av, b1, acc[2 * i + 1]);
        }
    }
    UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < 2; j++) {
        float *ci = c + i * ldc + 8 * j;
        const some mask = j ? m1 : m0;
        if (full)
            f_store(ci, f_add(f_load(ci), acc[2 * i + j]));
        else if (j == 0 || n > 8)
            f_store_some(ci, mask, f_add(f_load_some(ci, mask), acc[2 * i + j]));
    }
}

/* Multiplies 16 columns of B (fewer unless full) by all rows of A, in tiles unrolled for each
 * number of rows. */
INLINE void nn_strip(bool full, const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                     int64_t ldc, int64_t m, int64_t n, int64_t k) {
    int64_t i = 0;
    for (; i + NN_ROWS <= m; i += NN_ROWS)
        nn_tile(NN_ROWS, full, a + i * lda, lda, b, ldb, c + i * ldc, ldc, k, n);
    a += i * lda;
    c += i * ldc;
    switch (m - i) {
    case 1:
        nn_tile(1, full, a, lda, b, ldb, c, ldc, k, n);
        break;
    case 2:
        nn_tile(2, full, a, lda, b, ldb, c, ldc, k, n);
        break;
    case 3:
        nn_tile(3, full, a, lda, b, ldb, c, ldc, k, n);
        break;
    case 4:
        nn_tile(4, full, a, lda, b, ldb, c, ldc, k, n);
        break;
    case 5:
        nn_tile(5, full, a, lda, b, ldb, c, ldc, k, n);
        break;
    default:
        break;
    }
}
static void nn_full(const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc,
                    int64_t m, int64_t k) {
    float side[NN_K * NN_COLS];
    if (m > 2 * NN_ROWS) {
        for (int64_t p = 0; p < k; p++)
            memcpy(side + p * NN_COLS, b + p * ldb, NN_COLS * sizeof *b);
        b = side;
        ldb = NN_COLS;
    }
    nn_strip(true, a, lda, b, ldb, c, ldc, m, NN_COLS, k);
}

static void gemm_nn(const float *restrict a, int64_t lda, const float *restrict b, int64_t ldb,
                    float *restrict c, int64_t ldc, int64_t m, int64_t n, int64_t k) {
    kern_check_rows(a, lda, m, k);
    kern_check_rows(b, ldb, k, n);
    kern_check_rows(c, ldc, m, n);
    for (int64_t p = 0; p < k; p += NN_K) {
        const float *ap = a + p, *bp = b + p * ldb;
        const int64_t kp = k - p < NN_K ? k - p : NN_K;
        int64_t j = 0;
        for (; j + NN_COLS <= n; j += NN_COLS) nn_full(ap, lda, bp + j, ldb, c + j, ldc, m, kp);
        if (j < n) nn_strip(false, ap, lda, bp + j, ldb, c + j, ldc, m, n - j, kp);
    }
}

static float dot_f32(const float *restrict a, const float *restrict b, int64_t n) {
    return F32_OPS.dot(a, b, n);
}

static void put_gemm(struct kern *k) {
    k->gemm_f32 = gemm_f32;
    k->gemm_nn = gemm_nn;
    k->dot_f32 = dot_f32;
}
