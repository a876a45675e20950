// SPDX-License-Identifier: MIT
/* kernels/dev_product.c - second moments and products of gradients and learning on a CUDA device.
 */
#include "kernels/dev_product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "kernels/cuda/cuda.h"

/* Bytes of a matrix that are decoded or summed at once. */
enum { PIECE = 32 << 20 };
/* Products with fewer operations are left to the CPU, because copies would take longer. */
#define LEAST 5e7

enum part { A, B, C, RAW, N_PARTS };
struct dev_product {
    struct cu_ctx *c;
    struct cu_stream *s;
    struct pool *pool;
    uint64_t max_bytes;
    double least; /* operations; smaller products are left to the CPU */
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
                                  .turned_b = true,
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
    d->least = LEAST;
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

void dev_product_least(struct dev_product *d, double operations) {
    d->least = operations;
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
                                  .turned_b = true,
                                  .fresh = true,
                                  .fused = true,
                                  .lower = true};
    TRY(cu_multiply(d->s, &p, e));
    return fetch(d, C, n_bytes, e);
}

int64_t dev_product_squares(struct dev_product *d, const float *xt, int64_t rows, int64_t n,
                            int64_t block, float *sum) {
    struct err e;
    if (!d || d->off || (double)rows * (double)n * (double)block < d->least) return 0;
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

/* ---- products with a matrix -------------------------------------------------------------------
 */

struct copied {
    float *to;
    const float *from;
    int64_t ld_to, ld_from, n;
};
/* Copies rows r0 to r1 - 1; a pool_fn. */
static void copy_rows(void *ctx, int64_t r0, int64_t r1, int worker) {
    const struct copied *c = ctx;
    (void)worker;
    for (int64_t r = r0; r < r1; r++)
        memcpy(c->to + r * c->ld_to, c->from + r * c->ld_from, (size_t)c->n * sizeof(float));
}
/* Copies m rows of n values, ld apart, to a device buffer without gaps. */
static int put_rows(struct dev_product *d, enum part i, const float *from, int64_t ld, int64_t m,
                    int64_t n, struct err *e) {
    const uint64_t n_bytes = (uint64_t)(m * n) * sizeof *from;
    TRY(room_for(d, i, n_bytes, e));
    TRY(host_for(d, n_bytes, e));
    struct copied c = {d->host, from, n, ld, n};
    pool_for(d->pool, m, 16, copy_rows, &c);
    TRY(cu_upload(d->s, at(d, i), d->host, n_bytes, e));
    return cu_sync(d->s, e);
}

/* Returns whether the device multiplies m rows by a matrix. */
static bool takes(const struct dev_product *d, const struct dev_matrix *w, int64_t m) {
    return d && !d->off && cu_has_type(w->type) &&
           (double)w->rows * (double)w->k * (double)m >= d->least;
}
/* Returns the rows of k values that are decoded or summed at once. */
static int64_t piece_rows(int64_t k) {
    return max_i64(1, PIECE / (k * (int64_t)sizeof(float)));
}
/* Decodes rows [r0, r0 + n) of the matrix to B. */
static int decode(struct dev_product *d, const struct dev_matrix *w, int64_t r0, int64_t n,
                  struct err *e) {
    TRY(put(d, RAW, (const uint8_t *)w->data + (uint64_t)r0 * w->row_bytes,
            (uint64_t)n * w->row_bytes, e));
    TRY(room_for(d, B, (uint64_t)(n * w->k) * sizeof(float), e));
    return cu_decode_rows(d->s, w->type, at(d, RAW), w->k, NULL, n, 1, at(d, B), w->k, e);
}

/* Computes dev_product_rows' result into the pinned buffer, [m][rows]. */
static int rows_of(struct dev_product *d, const struct dev_matrix *w, const float *x, int64_t ld_x,
                   int64_t m, struct err *e) {
    const uint64_t n_bytes = (uint64_t)(m * w->rows) * sizeof(float);
    TRY(put_rows(d, A, x, ld_x, m, w->k, e));
    TRY(room_for(d, C, n_bytes, e));
    for (int64_t r0 = 0, n; r0 < w->rows; r0 += n) {
        n = min_i64(piece_rows(w->k), w->rows - r0);
        TRY(decode(d, w, r0, n, e));
        const struct cu_multiply p = {.c = (float *)at(d, C) + r0,
                                      .a = at(d, A),
                                      .b = at(d, B),
                                      .ldc = w->rows,
                                      .lda = w->k,
                                      .ldb = w->k,
                                      .m = m,
                                      .n = n,
                                      .k = w->k,
                                      .turned_b = true,
                                      .fresh = true,
                                      .fused = true};
        TRY(cu_multiply(d->s, &p, e));
    }
    return fetch(d, C, n_bytes, e);
}

bool dev_product_rows(struct dev_product *d, const struct dev_matrix *w, const float *x,
                      int64_t ld_x, float *y, int64_t ld_y, int64_t m) {
    struct err e;
    if (!takes(d, w, m) || !succeeded(d, rows_of(d, w, x, ld_x, m, &e), &e)) return false;
    struct copied c = {y, d->host, ld_y, w->rows, w->rows};
    pool_for(d->pool, m, 16, copy_rows, &c);
    return true;
}

/* Computes dev_product_back's result into the pinned buffer. */
static int back(struct dev_product *d, const struct dev_matrix *w, const float *dy, const float *dx,
                int64_t m, struct err *e) {
    const uint64_t n_bytes = (uint64_t)(m * w->k) * sizeof(float);
    TRY(put(d, A, dy, (uint64_t)(m * w->rows) * sizeof *dy, e));
    TRY(put(d, C, dx, n_bytes, e));
    for (int64_t r0 = 0, n; r0 < w->rows; r0 += n) {
        n = min_i64(piece_rows(w->k), w->rows - r0);
        TRY(decode(d, w, r0, n, e));
        const struct cu_multiply p = {.c = at(d, C),
                                      .a = (const float *)at(d, A) + r0,
                                      .b = at(d, B),
                                      .ldc = w->k,
                                      .lda = w->rows,
                                      .ldb = w->k,
                                      .m = m,
                                      .n = w->k,
                                      .k = n,
                                      .fused = true};
        TRY(cu_multiply(d->s, &p, e));
    }
    return fetch(d, C, n_bytes, e);
}

bool dev_product_back(struct dev_product *d, const struct dev_matrix *w, const float *dy, float *dx,
                      int64_t m) {
    struct err e;
    if (!takes(d, w, m) || !succeeded(d, back(d, w, dy, dx, m, &e), &e)) return false;
    pool_copy(d->pool, dx, d->host, (uint64_t)(m * w->k) * sizeof *dx);
    return true;
}

/* ---- gradients of matrices ------------------------------------------------------------------- */

struct added {
    float *to;
    const float *from;
    int64_t n; /* values of a row */
};
/* Adds rows r0 to r1 - 1; a pool_fn. */
static void add_rows(void *ctx, int64_t r0, int64_t r1, int worker) {
    const struct added *a = ctx;
    (void)worker;
    for (int64_t i = r0 * a->n; i < r1 * a->n; i++) a->to[i] += a->from[i];
}

/* Computes rows [r0, r0 + n) of g^T x into the pinned buffer; g and x, without gaps, are in A and
 * B. */
static int outer_piece(struct dev_product *d, const struct dev_pair *p, int64_t r0, int64_t n,
                       struct err *e) {
    const uint64_t n_bytes = (uint64_t)(n * p->k) * sizeof(float);
    TRY(room_for(d, C, n_bytes, e));
    const struct cu_multiply c = {.c = at(d, C),
                                  .a = (const float *)at(d, A) + r0,
                                  .b = at(d, B),
                                  .ldc = p->k,
                                  .lda = p->rows,
                                  .ldb = p->k,
                                  .m = n,
                                  .n = p->k,
                                  .k = p->m,
                                  .turned_a = true,
                                  .fresh = true,
                                  .fused = true};
    TRY(cu_multiply(d->s, &c, e));
    return fetch(d, C, n_bytes, e);
}

int64_t dev_product_outer(struct dev_product *d, const struct dev_pair *p, float *sum) {
    struct err e;
    if (!d || d->off || (double)p->rows * (double)p->k * (double)p->m < d->least) return 0;
    int rc = put_rows(d, A, p->g, p->ld_g, p->m, p->rows, &e);
    if (!rc) rc = put_rows(d, B, p->x, p->ld_x, p->m, p->k, &e);
    if (!succeeded(d, rc, &e)) return 0;
    for (int64_t r0 = 0, n; r0 < p->rows; r0 += n) {
        n = min_i64(piece_rows(p->k), p->rows - r0);
        if (!succeeded(d, outer_piece(d, p, r0, n, &e), &e)) return r0;
        struct added a = {sum + r0 * p->k, d->host, p->k};
        pool_for(d->pool, n, 16, add_rows, &a);
    }
    return p->rows;
}
