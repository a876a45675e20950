// SPDX-License-Identifier: MIT
/* kernels/dev_product.c - second moments and gradients' products on a CUDA device. */
#include "kernels/dev_product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "kernels/cuda/cuda.h"

/* PIECE: bytes of weights that are decoded at once. LEAST: products with fewer operations are left
 * to the CPU, because copies would take longer. */
enum { PIECE = 32 << 20 };
#define LEAST 5e7

enum part { A, B, C, RAW, N_PARTS };
struct dev_product {
    struct cu_ctx *c;
    struct cu_stream *s;
    struct pool *pool;
    uint64_t max_bytes;
    bool off;
    struct cu_buf *buf[N_PARTS];
    void *host; /* pinned */
    uint64_t host_bytes;
};

/* Makes a device buffer hold n bytes, without keeping its contents. */
static int room_for(struct dev_product *d, enum part i, uint64_t n, struct err *e) {
    uint64_t all = n;
    if (d->buf[i] && cu_buf_bytes(d->buf[i]) >= n) return 0;
    cu_buf_free(d->buf[i]);
    d->buf[i] = NULL;
    for (int k = 0; k < N_PARTS; k++) all += d->buf[k] ? cu_buf_bytes(d->buf[k]) : 0;
    if (d->max_bytes && all > d->max_bytes)
        return err_set(e, ERR_SYS,
                       "products need %llu bytes of device memory, more than "
                       "--max-vram allows",
                       (unsigned long long)all);
    return cu_buf_new(&d->buf[i], d->c, n, "products of matrices", e);
}
static void *at(const struct dev_product *d, enum part i) {
    return cu_buf_ptr(d->buf[i]);
}

/* Makes the pinned buffer hold n bytes, without keeping its contents. */
static int host_for(struct dev_product *d, uint64_t n, struct err *e) {
    if (d->host_bytes >= n) return 0;
    cu_host_free(d->c, d->host);
    d->host = NULL;
    d->host_bytes = 0;
    TRY(cu_host_new(&d->host, d->c, n, "matrices between host and device", e));
    d->host_bytes = n;
    return 0;
}

/* Copies n bytes to a device buffer, through pinned memory, and waits. */
static int put(struct dev_product *d, enum part i, const void *from, uint64_t n, struct err *e) {
    TRY(room_for(d, i, n, e));
    TRY(host_for(d, n, e));
    pool_copy(d->pool, d->host, from, n);
    TRY(cu_upload(d->s, at(d, i), d->host, n, e));
    return cu_sync(d->s, e);
}
/* Copies n bytes of a device buffer to the pinned buffer and waits. */
static int fetch(struct dev_product *d, enum part i, uint64_t n, struct err *e) {
    TRY(host_for(d, n, e));
    TRY(cu_download(d->s, d->host, at(d, i), n, e));
    return cu_sync(d->s, e);
}

/* Computes a small product on the device and compares it with sums in double. */
static int try_out(struct dev_product *d, struct err *e) {
    enum { M = 70, N = 33, K = 50 };
    float a[M * K], b[N * K];
    struct rng r;
    rng_seed(&r, 1);
    for (int i = 0; i < M * K; i++) a[i] = rng_normal(&r);
    for (int i = 0; i < N * K; i++) b[i] = rng_normal(&r);
    TRY(put(d, A, a, sizeof a, e));
    TRY(put(d, B, b, sizeof b, e));
    TRY(room_for(d, C, M * N * sizeof(float), e));
    const struct cu_multiply p = {.c = at(d, C),
                                  .a = at(d, A),
                                  .b = at(d, B),
                                  .ldc = N,
                                  .lda = K,
                                  .ldb = K,
                                  .m = M,
                                  .n = N,
                                  .k = K,
                                  .turned = true,
                                  .fresh = true,
                                  .fused = true};
    TRY(cu_multiply(d->s, &p, e));
    TRY(fetch(d, C, M * N * sizeof(float), e));
    const float *c = d->host;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double want = 0, size = 0;
            for (int k = 0; k < K; k++) {
                want += (double)a[i * K + k] * (double)b[j * K + k];
                size += fabs((double)a[i * K + k] * (double)b[j * K + k]);
            }
            if (!(fabs((double)c[i * N + j] - want) <= 1e-5 * size))
                return err_set(e, ERR_SYS, "the device computed a wrong product");
        }
    return 0;
}

int dev_product_new(struct dev_product **out, int index, uint64_t max_bytes, struct pool *pool,
                    struct err *e) {
    struct dev_product *d = xcalloc(1, sizeof *d);
    int rc;
    d->pool = pool;
    d->max_bytes = max_bytes;
    TRY_GOTO(fail, rc, cu_open(&d->c, index, e));
    TRY_GOTO(fail, rc, cu_stream_new(&d->s, d->c, e));
    TRY_GOTO(fail, rc, try_out(d, e));
    *out = d;
    return 0;
fail:
    dev_product_free(d);
    return rc;
}

void dev_product_free(struct dev_product *d) {
    if (!d) return;
    for (int i = 0; i < N_PARTS; i++) cu_buf_free(d->buf[i]);
    if (d->c) cu_host_free(d->c, d->host);
    cu_stream_free(d->s);
    cu_close(d->c);
    free(d);
}

/* Returns whether the device did its part; if not, gives it up with a warning. */
static bool succeeded(struct dev_product *d, int rc, const struct err *e) {
    if (rc == 0) return true;
    log_warn("continuing on the CPU: %s", e->msg);
    d->off = true;
    return false;
}

/* ---- moments --------------------------------------------------------------------------------- */

struct addition {
    const float *from; /* [rows][nc] */
    float *to;         /* rows `block` apart */
    int64_t nc, block;
};
/* Adds the lower triangle of rows r0 to r1 - 1; a pool_fn. */
static void add_lower(void *ctx, int64_t r0, int64_t r1, int worker) {
    const struct addition *j = ctx;
    (void)worker;
    for (int64_t r = r0; r < r1; r++)
        for (int64_t k = 0; k <= r; k++) j->to[r * j->block + k] += j->from[r * j->nc + k];
}

/* Computes the products of the columns of one block, [nc][rows] in A, and fetches them. */
static int square(struct dev_product *d, int64_t nc, int64_t rows, struct err *e) {
    const uint64_t n_bytes = (uint64_t)(nc * nc) * sizeof(float);
    TRY(room_for(d, C, n_bytes, e));
    const struct cu_multiply p = {.c = at(d, C),
                                  .a = at(d, A),
                                  .b = at(d, A),
                                  .ldc = nc,
                                  .lda = rows,
                                  .ldb = rows,
                                  .m = nc,
                                  .n = nc,
                                  .k = rows,
                                  .turned = true,
                                  .fresh = true,
                                  .fused = true,
                                  .lower = true};
    TRY(cu_multiply(d->s, &p, e));
    return fetch(d, C, n_bytes, e);
}

int64_t dev_product_squares(struct dev_product *d, const float *xt, int64_t rows, int64_t n,
                            int64_t block, float *sum) {
    struct err e;
    if (!d || d->off || (double)rows * (double)n * (double)block < LEAST) return 0;
    for (int64_t b0 = 0; b0 < n; b0 += block) {
        const int64_t nc = min_i64(block, n - b0);
        int rc = put(d, A, xt + b0 * rows, (uint64_t)(nc * rows) * sizeof *xt, &e);
        if (!rc) rc = square(d, nc, rows, &e);
        if (!succeeded(d, rc, &e)) return b0;
        struct addition j = {d->host, sum + b0 * block, nc, block};
        pool_for(d->pool, nc, 16, add_lower, &j);
    }
    return n;
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* Adds the part of rows [r0, r0 + n) of W to C, [m][k]; A is dy. */
static int back_piece(struct dev_product *d, enum qtype t, const uint8_t *data, uint64_t row_bytes,
                      int64_t rows, int64_t r0, int64_t n, int64_t k, int64_t m, struct err *e) {
    TRY(put(d, RAW, data + (uint64_t)r0 * row_bytes, (uint64_t)n * row_bytes, e));
    TRY(room_for(d, B, (uint64_t)(n * k) * sizeof(float), e));
    TRY(cu_decode_rows(d->s, t, at(d, RAW), k, NULL, n, 1, at(d, B), k, e));
    const struct cu_multiply p = {.c = at(d, C),
                                  .a = (const float *)at(d, A) + r0,
                                  .b = at(d, B),
                                  .ldc = k,
                                  .lda = rows,
                                  .ldb = k,
                                  .m = m,
                                  .n = k,
                                  .k = n,
                                  .fused = true};
    return cu_multiply(d->s, &p, e);
}

/* Computes dev_product_back's result into the pinned buffer. */
static int back(struct dev_product *d, enum qtype t, const void *data, uint64_t row_bytes,
                int64_t rows, int64_t k, const float *dy, const float *dx, int64_t m,
                struct err *e) {
    const uint64_t n_bytes = (uint64_t)(m * k) * sizeof(float);
    const int64_t most = max_i64(1, PIECE / (k * (int64_t)sizeof(float)));
    TRY(put(d, A, dy, (uint64_t)(m * rows) * sizeof *dy, e));
    TRY(put(d, C, dx, n_bytes, e));
    for (int64_t r0 = 0; r0 < rows; r0 += most)
        TRY(back_piece(d, t, data, row_bytes, rows, r0, min_i64(most, rows - r0), k, m, e));
    return fetch(d, C, n_bytes, e);
}

bool dev_product_back(struct dev_product *d, enum qtype t, const void *data, uint64_t row_bytes,
                      int64_t rows, int64_t k, const float *dy, float *dx, int64_t m) {
    struct err e;
    if (!d || d->off || !cu_has_type(t) || (double)rows * (double)k * (double)m < LEAST)
        return false;
    if (!succeeded(d, back(d, t, data, row_bytes, rows, k, dy, dx, m, &e), &e)) return false;
    pool_copy(d->pool, dx, d->host, (uint64_t)(m * k) * sizeof *dx);
    return true;
}
