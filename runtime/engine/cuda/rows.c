// SPDX-License-Identifier: MIT
/* runtime/engine/cuda/rows.c - the description of a pass for the kernels, and the device memory of
 * sequences: pages, states, page tables.
 *
 * The description is one upload: segments, then position, segment and token id of each row. Short
 * segments come first, so that those of one launch are contiguous. The data of a single token is at
 * the same address for every sequence; captured pieces read it there. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/engine/cuda/exec.h"

_Static_assert((int)CU_PAGE % (int)KEY_BLOCK == 0, "pages hold whole blocks of keys");

/* ---- memory of sequences ---- */

/* Keeps the error of a call that cannot return one; the next pass reports it. */
static void keep_error(struct cuda_set *all, int rc, const struct err *e) {
    if (rc && !all->lost.code) all->lost = *e;
}

/* Allocates n zeroed bytes on a device; *at is the address, *own the value to pass to
 * dev_free(). */
static int dev_alloc(void *of, int place, uint64_t n, const char *what, void **own, void **at,
                     struct err *e) {
    struct cuda *d = ((struct cuda_set *)of)->part[place];
    struct cu_buf *b = NULL;
    TRY(cu_buf_new(&b, d->ctx, n, what, e));
    const int rc = cu_fill(d->q, cu_buf_ptr(b), 0, n, e);
    if (rc) {
        cu_buf_free(b);
        return rc;
    }
    *own = b;
    *at = cu_buf_ptr(b);
    return 0;
}
static void dev_free(void *of, void *own) {
    (void)of;
    cu_buf_free(own);
}
/* Copies n bytes on a device; records an error for the next pass to report. */
static void dev_copy(void *of, int place, void *to, const void *from, uint64_t n) {
    struct cuda_set *all = of;
    struct err e;
    keep_error(all, cu_copy(all->part[place]->q, to, from, n, &e), &e);
}
/* Zeroes n bytes on a device; records an error for the next pass to report. */
static void dev_zero(void *of, int place, void *at, uint64_t n) {
    struct cuda_set *all = of;
    struct err e;
    keep_error(all, cu_fill(all->part[place]->q, at, 0, n, &e), &e);
}

void exec_cuda_own_cache(struct session *s) {
    struct cache *c = &s->cache;
    c->mem = (struct cache_mem){s->dev, dev_alloc, dev_free, dev_copy, dev_zero};
    c->keeps_spare = !s->o.guests;
    c->spare_tok = s->o.guests ? c->kv.n_ctx : 0; /* the plan counts these pages */
    c->table_bytes = (uint64_t)(div_up(c->kv.n_ctx, c->page_tok) * c->kv.n_slots) * sizeof(void *);
}

/* Uploads the changed entries of a sequence's page table for part d, up to the last page. */
static int upload_table(struct cuda *d, const struct seq *q, struct err *e) {
    const int64_t n_slots = d->s->cache.kv.n_slots, from = q->table_from;
    void **table = q->mem[d->place].table;
    int64_t end = 0;
    for (int i = 0; i < n_slots; i++)
        if (q->slot[i].n) end = max_i64(end, q->slot[i].first + q->slot[i].n);
    if (from >= end || !table) return 0;
    void **page = xcalloc((size_t)((end - from) * n_slots), sizeof *page);
    for (int i = 0; i < n_slots; i++) {
        const struct seq_pages *p = &q->slot[i];
        for (int k = 0; k < p->n && d->s->cache.pool[i].place == d->place; k++)
            if (p->first + k >= from) page[(p->first + k - from) * n_slots + i] = p->v[k]->data;
    }
    const int rc = cu_upload(d->q, table + from * n_slots, page,
                             (uint64_t)((end - from) * n_slots) * sizeof *page, e);
    free(page);
    return rc;
}

/* ---- rows ---- */

uint64_t exec_cuda_rows_bytes(int64_t n) {
    return (uint64_t)n * (sizeof(struct cu_seg) + 6 * sizeof(int32_t));
}

const struct cu_seg *exec_cuda_seg(const struct cuda *d, int i) {
    return (const struct cu_seg *)(const void *)d->host_rows + i;
}

/* Orders segments by length, then by first row, for qsort. */
static int by_length(const void *a, const void *b) {
    const struct cu_seg *x = a, *y = b;
    return x->n != y->n ? (x->n > y->n) - (x->n < y->n) : (x->row > y->row) - (x->row < y->row);
}

/* Uploads the description of the pass to part d. */
static int upload_rows(struct cuda *d, struct err *e) {
    struct session *s = d->s;
    struct cu_seg *seg = (struct cu_seg *)(void *)d->host_rows;
    for (int i = 0; i < s->n_segs; i++) {
        const struct seq *q = s->seg[i].seq;
        TRY(upload_table(d, q, e));
        seg[i] = (struct cu_seg){.page = q->mem[d->place].table,
                                 .state = q->mem[d->place].state,
                                 .pos = (int32_t)q->pos,
                                 .row = (int32_t)s->seg[i].r0,
                                 .n = (int32_t)s->seg[i].n};
    }
    qsort(seg, (size_t)s->n_segs, sizeof *seg, by_length);
    int32_t *pos = (int32_t *)(void *)(seg + s->n_segs), *of = pos + s->n_tok, *ids = of + s->n_tok;
    for (int32_t i = 0; i < s->n_segs; i++)
        for (int32_t k = 0; k < seg[i].n; k++) {
            pos[seg[i].row + k] = seg[i].pos + k;
            of[seg[i].row + k] = i;
        }
    int32_t *turn = ids + s->n_tok;
    for (int64_t r = 0; r < s->n_tok; r++) ids[r] = exec_image(s, r) ? 0 : s->ids[r];
    for (int64_t r = 0; r < s->n_tok; r++)
        for (int i = 0; i < 3; i++)
            turn[3 * r + i] = s->images.turned ? (int32_t)s->images.turn[r][i] : pos[r];
    d->seg = (struct cu_seg *)(void *)d->rows;
    d->pos = (int32_t *)(void *)(d->seg + s->n_segs);
    d->of = d->pos + s->n_tok;
    d->ids = d->of + s->n_tok;
    d->turn_pos = d->ids + s->n_tok;
    return cu_upload(d->q, d->rows, d->host_rows,
                     (uint64_t)((uint8_t *)(turn + 3 * s->n_tok) - d->host_rows), e);
}

int exec_cuda_rows(struct session *s, struct err *e) {
    const struct cuda_set *all = s->dev;
    int rc = 0;
    for (int i = 0; i < s->n_segs; i++) TRY(seq_grow(s->seg[i].seq, s->seg[i].n, e));
    for (int i = 0; i < all->n && !rc; i++) rc = upload_rows(all->part[i], e);
    for (int i = 0; i < s->n_segs && !rc; i++) s->seg[i].seq->table_from = INT64_MAX;
    return rc;
}

struct cu_rows_of exec_cuda_next(const struct cuda *d, int *first, int64_t most, int64_t room) {
    const int i = *first;
    struct cu_rows_of r = {.seg = d->seg + i};
    for (int k = i; k < d->s->n_segs; k++) {
        const int64_t n = exec_cuda_seg(d, k)->n;
        if (n > most || n * (k + 1 - i) > room) break;
        r.n_segs++;
        r.longest = n;
    }
    *first += (int)r.n_segs;
    return r;
}
