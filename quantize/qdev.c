// SPDX-License-Identifier: MIT
/* quantize/qdev.c - buffers, copies and scheduling of searches on a device. */
#include "quantize/qdev.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "quantize/enc/cuda/rows.h"

enum { CHUNK = 2 << 20, N_SLOTS = 2 };

struct room { /* a buffer that grows on demand */
    void *p;
    struct cu_buf *buf;
    uint64_t n;
};
struct slot { /* a chunk in flight */
    struct cu_stream *s;
    struct room raw, x, work, out, bad;       /* device buffers */
    struct room host_raw, host_out, host_bad; /* pinned host buffers */
    int64_t first, n;                         /* rows; n 0: slot is free */
    uint8_t *dst;
};
struct qdev {
    struct cu_ctx *c;
    struct pool *pool;
    uint64_t max_bytes;
    bool must, off, refused;
    struct slot slot[N_SLOTS];
    struct room imp, tables;
    struct qdev_tensor t;
    uint64_t src_row, dst_row;
    int64_t per_chunk; /* rows per chunk */
};

/* Frees the buffer, in device or main memory, and clears *r. */
static void room_free(struct qdev *d, struct room *r) {
    if (r->buf)
        cu_buf_free(r->buf);
    else if (r->p)
        cu_host_free(d->c, r->p);
    memset(r, 0, sizeof *r);
}

/* Makes the buffer hold n bytes, without keeping its contents; host: in pinned main memory. */
static int room_for(struct qdev *d, struct room *r, uint64_t n, bool host, struct err *e) {
    if (r->n >= n && r->p) return 0;
    room_free(d, r);
    if (host) {
        TRY(cu_host_new(&r->p, d->c, n, "rows between host and device", e));
    } else {
        TRY(cu_buf_new(&r->buf, d->c, n, "quantizing on the device", e));
        r->p = cu_buf_ptr(r->buf);
    }
    r->n = n;
    return 0;
}

int qdev_open(struct qdev **out, const struct qdev_want *w, struct pool *pool, struct err *e) {
    *out = NULL;
    if (w->use == QDEV_NONE) return 0;
    struct qdev *d = xcalloc(1, sizeof *d);
    int rc = 0;
    d->pool = pool;
    d->max_bytes = w->max_bytes;
    d->must = w->use == QDEV_MUST;
    TRY_GOTO(fail, rc, cu_open(&d->c, w->index, e));
    for (int i = 0; i < N_SLOTS; i++) TRY_GOTO(fail, rc, cu_stream_new(&d->slot[i].s, d->c, e));
    *out = d;
    if (w->by_default) log_debug("quantizing on cuda:%d", w->index);
    return 0;
fail:
    qdev_close(d);
    if (w->use == QDEV_MUST) return rc;
    log_warn("quantizing on the CPU: %s", e->msg);
    return 0;
}

void qdev_give_up(struct qdev *d) {
    if (d) d->off = true;
}

static void rooms_free(struct qdev *d) {
    for (int i = 0; i < N_SLOTS; i++) {
        struct slot *s = &d->slot[i];
        struct room *all[] = {&s->raw, &s->x,        &s->work,     &s->out,
                              &s->bad, &s->host_raw, &s->host_out, &s->host_bad};
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) room_free(d, all[k]);
    }
    room_free(d, &d->imp);
    room_free(d, &d->tables);
}

bool qdev_is_on(const struct qdev *d) {
    return d && !d->off;
}
struct cu_ctx *qdev_ctx(struct qdev *d) {
    return d->c;
}
uint64_t qdev_max_bytes(const struct qdev *d) {
    return d->max_bytes;
}
void qdev_trim(struct qdev *d) {
    rooms_free(d);
}

int qdev_failed(struct qdev *d, int rc, const struct err *e) {
    if (d->must) return rc;
    log_warn("continuing on the CPU alone: %s", e->msg);
    qdev_give_up(d);
    return 0;
}

void qdev_refused(struct qdev *d, const char *part, const struct err *e) {
    if (d->refused)
        log_debug("%s on the CPU: %s", part, e->msg);
    else
        log_warn("%s on the CPU: %s", part, e->msg);
    d->refused = true;
}

void qdev_close(struct qdev *d) {
    if (!d) return;
    rooms_free(d);
    for (int i = 0; i < N_SLOTS; i++) cu_stream_free(d->slot[i].s);
    cu_close(d->c);
    free(d);
}

/* Returns the device memory for a chunk of n rows, in bytes. */
static uint64_t chunk_bytes(const struct qdev *d, int64_t n) {
    const uint64_t rows = (uint64_t)n;
    return rows * (d->src_row + d->dst_row + (uint64_t)d->t.k * sizeof(float) + sizeof(int32_t)) +
           enc_cuda_work(d->t.to, d->t.search, n, d->t.k);
}

/* Makes the buffers of all slots large enough for the current tensor. */
static int reserve_rooms(struct qdev *d, struct err *e) {
    const uint64_t n = (uint64_t)d->per_chunk;
    for (int i = 0; i < N_SLOTS; i++) {
        struct slot *s = &d->slot[i];
        TRY(room_for(d, &s->raw, n * d->src_row, false, e));
        TRY(room_for(d, &s->x, n * (uint64_t)d->t.k * sizeof(float), false, e));
        TRY(room_for(d, &s->out, n * d->dst_row, false, e));
        TRY(room_for(d, &s->bad, n * sizeof(int32_t), false, e));
        TRY(room_for(d, &s->work, enc_cuda_work(d->t.to, d->t.search, d->per_chunk, d->t.k), false,
                     e));
        TRY(room_for(d, &s->host_raw, n * d->src_row, true, e));
        TRY(room_for(d, &s->host_out, n * d->dst_row, true, e));
        TRY(room_for(d, &s->host_bad, n * sizeof(int32_t), true, e));
    }
    return 0;
}

/* Uploads the tensor's importance and the tables of its type. */
static int upload_tables(struct qdev *d, const float *imp, uint64_t imp_bytes, uint64_t table_bytes,
                         struct err *e) {
    void *p;
    if (imp_bytes) {
        TRY(room_for(d, &d->imp, imp_bytes, false, e));
        TRY(cu_upload(d->slot[0].s, d->imp.p, imp, imp_bytes, e));
        d->t.imp = d->imp.p;
    }
    if (table_bytes) {
        const struct grid_how how = grid_how_of(d->t.to, d->t.search);
        TRY(room_for(d, &d->tables, table_bytes, false, e));
        TRY(mem_alloc(&p, table_bytes, "levels of a grid", e));
        enc_grid_tables(&how, p);
        const int rc = cu_upload(d->slot[0].s, d->tables.p, p, table_bytes, e);
        mem_free(p);
        TRY(rc);
    }
    return cu_sync(d->slot[0].s, e);
}

/* Returns the size of the tables that a grid type needs; 0 for other types. */
static uint64_t table_bytes_of(const struct qdev_tensor *t) {
    if (!grid_spec_of(t->to)) return 0;
    const struct grid_how how = grid_how_of(t->to, t->search);
    return enc_grid_tables(&how, NULL);
}

/* Prepares buffers and tables for a tensor, within the memory limit. */
static int set_tensor(struct qdev *d, const struct qdev_tensor *t, struct err *e) {
    const uint64_t imp_bytes = t->imp ? (uint64_t)(t->n_mat * t->k) * sizeof(float) : 0;
    const uint64_t table_bytes = table_bytes_of(t), fixed = imp_bytes + table_bytes;
    d->t = *t;
    d->t.imp = NULL;
    d->src_row = qtype_row_bytes(t->from, t->k);
    d->dst_row = qtype_row_bytes(t->to, t->k);
    d->per_chunk = min_i64(max_i64(1, CHUNK / t->k), t->rows * t->n_mat);
    while (d->max_bytes && d->per_chunk > 1 &&
           fixed + N_SLOTS * chunk_bytes(d, d->per_chunk) > d->max_bytes)
        d->per_chunk /= 2;
    if (d->max_bytes && fixed + N_SLOTS * chunk_bytes(d, d->per_chunk) > d->max_bytes)
        return err_set(e, ERR_SYS,
                       "two rows of %lld weights and their importance need %llu bytes of device "
                       "memory, more than --max-vram allows",
                       (long long)t->k, (unsigned long long)(fixed + N_SLOTS * chunk_bytes(d, 1)));
    if (d->max_bytes)
        rooms_free(d); /* buffers that grew for earlier tensors count towards the limit */
    TRY(reserve_rooms(d, e));
    return upload_tables(d, t->imp, imp_bytes, table_bytes, e);
}

int qdev_tensor(struct qdev *d, const struct qdev_tensor *t, bool *takes, struct err *e) {
    *takes = false;
    if (!d || d->off || !cu_has_type(t->from) || !enc_cuda_can(t->to)) return 0;
    const int rc = set_tensor(d, t, e);
    *takes = rc == 0;
    return rc ? qdev_failed(d, rc, e) : 0;
}

/* Queues a chunk of n rows. */
static int queue_chunk(struct qdev *d, struct slot *s, const uint8_t *src, int64_t first, int64_t n,
                       uint8_t *dst, struct err *e) {
    const uint64_t n_raw = (uint64_t)n * d->src_row;
    pool_copy(d->pool, s->host_raw.p, src, n_raw);
    const struct enc_cuda_rows a = {.type = d->t.to,
                                    .search = d->t.search,
                                    .n = n,
                                    .k = d->t.k,
                                    .x = s->x.p,
                                    .imp = d->t.imp,
                                    .imp_rows = d->t.rows,
                                    .imp_first = first,
                                    .balance = d->t.balance,
                                    .tables = d->tables.p,
                                    .out = s->out.p,
                                    .bad = s->bad.p,
                                    .work = s->work.p};
    s->first = first;
    s->n = n;
    s->dst = dst;
    TRY(cu_upload(s->s, s->raw.p, s->host_raw.p, n_raw, e));
    TRY(cu_decode_rows(s->s, d->t.from, s->raw.p, d->t.k, NULL, n, 1, s->x.p, d->t.k, e));
    TRY(enc_cuda_rows(s->s, &a, e));
    TRY(cu_download(s->s, s->host_out.p, s->out.p, (uint64_t)n * d->dst_row, e));
    return cu_download(s->s, s->host_bad.p, s->bad.p, (uint64_t)n * sizeof(int32_t), e);
}

/* Waits for the slot's chunk, the oldest in flight, and stores its bytes. */
static int finish_chunk(struct qdev *d, struct slot *s, struct qdev_odd *odd, struct err *e) {
    const int32_t *bad = s->host_bad.p;
    const int64_t n = s->n;
    if (!n) return 0;
    s->n = 0;
    TRY(cu_sync(s->s, e));
    pool_copy(d->pool, s->dst, s->host_out.p, (uint64_t)n * d->dst_row);
    for (int64_t i = 0; i < n && odd->row < 0; i++) {
        if (bad[i] == ENC_ROW_LARGE) {
            odd->large(odd->ctx, s->first + i);
        } else if (bad[i]) {
            odd->row = s->first + i;
            odd->col = d->t.k - (bad[i] - ENC_ROW_LARGE);
        }
    }
    return 0;
}

int qdev_rows(struct qdev *d, const uint8_t *src, int64_t first, int64_t n, uint8_t *dst,
              struct qdev_odd *odd, struct err *e) {
    int rc = 0, turn = 0;
    odd->row = odd->col = -1;
    for (int64_t at = 0, m; at < n && rc == 0; at += m, turn++) {
        struct slot *s = &d->slot[turn % N_SLOTS];
        m = min_i64(d->per_chunk, n - at);
        rc = finish_chunk(d, s, odd, e);
        if (rc == 0)
            rc = queue_chunk(d, s, src + (uint64_t)at * d->src_row, first + at, m,
                             dst + (uint64_t)at * d->dst_row, e);
    }
    for (int i = 0; i < N_SLOTS && rc == 0; i++, turn++)
        rc = finish_chunk(d, &d->slot[turn % N_SLOTS], odd, e);
    struct err late;
    /* After an error the device may still use the buffers, so wait before freeing them. */
    for (int i = 0; i < N_SLOTS; i++) {
        if (d->slot[i].n) cu_sync(d->slot[i].s, &late);
        d->slot[i].n = 0;
    }
    return rc;
}
