// SPDX-License-Identifier: MIT
/* kernels/avx2/gemm.c - matrix products. C = A B^T has both operands contiguous along k, so nothing
 * is packed.
 *
 * A tile of 3 tokens x 4 weight rows keeps 12 accumulators of 8 partial sums along k: 7 loads feed
 * 12 FMAs. k runs in steps of KB, so that 4 rows of B stay in L1; tokens in steps of MB, so that
 * they stay in L2. An element of C is always summed the same way (8 lanes over k, hsum, then over
 * the KB steps), whatever tile it falls in: results do not depend on m, n or on how the work was
 * split. One core of a Zen 5 EPYC, November 2026: about 110 GFLOP/s from 16 tokens on and 50-65 for
 * 1 or 2; OpenBLAS 0.3.21 (its Haswell kernels) gave 73-110 and 8-15, and sums
 * in an order that depends on the machine, so it is not used. */
#include <string.h>

#include "kernels/avx2/avx2.h"
#include "kernels/ops.h"

enum { KB = 1024, MB = 96 };

INLINE __m256i lanes(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* C[0..mr)[0..nr) (+)= over k; mr*nr <= 12. */
INLINE void tile(int mr, int nr, const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
                 int64_t ldc, int64_t k, int add) {
    __m256 acc[12];
    UNROLL for (int e = 0; e < mr * nr; e++) acc[e] = _mm256_setzero_ps();
    int64_t p = 0;
    for (; p + 8 <= k; p += 8) {
        __m256 av[3];
        UNROLL for (int i = 0; i < mr; i++) av[i] = _mm256_loadu_ps(a + i * lda + p);
        UNROLL for (int j = 0; j < nr; j++) {
            const __m256 bv = _mm256_loadu_ps(b + j * ldb + p);
            UNROLL for (int i = 0; i < mr; i++) acc[i * nr + j] =
                _mm256_fmadd_ps(av[i], bv, acc[i * nr + j]);
        }
    }
    if (p < k) {
        const __m256i m = lanes(k - p);
        UNROLL for (int j = 0; j < nr; j++) {
            const __m256 bv = _mm256_maskload_ps(b + j * ldb + p, m);
            UNROLL for (int i = 0; i < mr; i++) acc[i * nr + j] =
                _mm256_fmadd_ps(_mm256_maskload_ps(a + i * lda + p, m), bv, acc[i * nr + j]);
        }
    }
    UNROLL for (int i = 0; i < mr; i++) {
        float *ci = c + i * ldc;
        UNROLL for (int j = 0; j + 4 <= nr; j += 4) {
            const __m256 *s = acc + i * nr + j;
            const __m128 v = reduce4(s[0], s[1], s[2], s[3]);
            _mm_storeu_ps(ci + j, add ? _mm_add_ps(_mm_loadu_ps(ci + j), v) : v);
        }
        UNROLL for (int j = nr / 4 * 4; j < nr; j++) {
            const float v = hsum(acc[i * nr + j]);
            ci[j] = add ? ci[j] + v : v;
        }
    }
}

/* All of n for mr tokens. */
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

/* Four rows of B against m tokens, three at a time. */
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
    do { /* once even for k 0: C becomes 0 */
        const int64_t kb = k - p < KB ? k - p : KB;
        for (int64_t i = 0; i < m; i += MB)
            block(a + i * lda + p, lda, b + p, ldb, c + i * ldc, ldc, m - i < MB ? m - i : MB, n,
                  kb, p > 0);
        p += KB;
    } while (p < k);
}

/* ---- C += A B: columns along the lanes ----
 * A tile of 6 rows x 16 columns: 2 loads of B and 6 broadcasts of A feed 12 FMAs. The 16 columns of
 * B are copied side by side first when several tiles read them: in place they lie in few sets of
 * the L1 cache. An element is summed over k in order, in steps of NN_K. */
enum { NN_K = 256, NN_COLS = 16, NN_ROWS = 6 };

INLINE void nn_tile(int mr, bool full, const float *a, int64_t lda, const float *b, int64_t ldb,
                    float *c, int64_t ldc, int64_t k, int64_t n) {
    __m256 acc[2 * NN_ROWS];
    UNROLL for (int e = 0; e < 2 * mr; e++) acc[e] = _mm256_setzero_ps();
    const __m256i m0 = lanes(n), m1 = lanes(n - 8);
    for (int64_t p = 0; p < k; p++, b += ldb) {
        const __m256 b0 = full ? _mm256_loadu_ps(b) : _mm256_maskload_ps(b, m0);
        const __m256 b1 = full ? _mm256_loadu_ps(b + 8) : _mm256_maskload_ps(b + 8, m1);
        UNROLL for (int i = 0; i < mr; i++) {
            const __m256 av = _mm256_broadcast_ss(a + i * lda + p);
            acc[2 * i] = _mm256_fmadd_ps(av, b0, acc[2 * i]);
            acc[2 * i + 1] = _mm256_fmadd_ps(av, b1, acc[2 * i + 1]);
        }
    }
    UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < 2; j++) {
        float *ci = c + i * ldc + 8 * j;
        const __m256i mask = j ? m1 : m0;
        if (full)
            _mm256_storeu_ps(ci, _mm256_add_ps(_mm256_loadu_ps(ci), acc[2 * i + j]));
        else if (j == 0 || n > 8)
            _mm256_maskstore_ps(ci, mask,
                                _mm256_add_ps(_mm256_maskload_ps(ci, mask), acc[2 * i + j]));
    }
}

/* 16 columns of B (full), or fewer, for all rows of A, in tiles unrolled for each number of rows.
 */
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
    return kern_avx2_F32.dot(a, b, n);
}

void kern_avx2_gemm(struct kern *k) {
    k->gemm_f32 = gemm_f32;
    k->gemm_nn = gemm_nn;
    k->dot_f32 = dot_f32;
}
