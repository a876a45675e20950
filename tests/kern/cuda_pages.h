// SPDX-License-Identifier: MIT
/* tests/kern/cuda_pages.h - sequences for tests on a device: scattered pages in random order, and
 * page tables with invalid entries for all layers except the one under test. */
#ifndef HONE_TESTS_KERN_CUDA_PAGES_H
#define HONE_TESTS_KERN_CUDA_PAGES_H

#include "base/mem.h"
#include "base/num.h"
#include "tests/kern/cuda_dev.h"

enum { PAGES_SLOT = 1, PAGES_SLOTS = 3 };

/* Returns the size of a page of n_heads kv heads of dim values, in bytes. */
static inline uint64_t pages_bytes(enum qtype k, enum qtype v, int64_t n_heads, int64_t dim) {
    return (uint64_t)(n_heads * CU_PAGE) * (qtype_row_bytes(k, dim) + qtype_row_bytes(v, dim));
}
/* Creates the page table of a sequence with room for n_tok tokens; every second slot between pages
 * is empty. */
static inline void *const *pages_new(struct dev *d, uint64_t page_bytes, int64_t n_tok) {
    const int64_t n = div_up(n_tok, CU_PAGE);
    uint8_t *at = dev_new(d, (size_t)(2 * n + 1) * page_bytes);
    void **host = xcalloc((size_t)(n * PAGES_SLOTS), sizeof *host);
    memset(host, 0xff, (size_t)(n * PAGES_SLOTS) * sizeof *host);
    for (int64_t i = 0; i < n; i++) /* 0 2 4 ... 5 3 1 */
        host[i * PAGES_SLOTS + PAGES_SLOT] =
            at + (uint64_t)(2 * (i % 2 ? n - 1 - i / 2 : i / 2) + 1) * page_bytes;
    void *const *table = dev_put(d, host, (size_t)(n * PAGES_SLOTS) * sizeof *host);
    free(host);
    return table;
}

/* The description of a pass's rows for kernels: segments as given, rows in order. */
struct rows {
    struct cu_seg *seg;
    int32_t *pos, *of;
    int64_t n;
};
static inline struct rows rows_put(struct dev *d, struct cu_seg *seg, int n_segs) {
    struct rows r = {.n = 0};
    for (int i = 0; i < n_segs; i++) {
        seg[i].row = (int32_t)r.n;
        r.n += seg[i].n;
    }
    int32_t *pos = xcalloc((size_t)r.n + 1, sizeof *pos),
            *of = xcalloc((size_t)r.n + 1, sizeof *of);
    for (int i = 0; i < n_segs; i++)
        for (int32_t k = 0; k < seg[i].n; k++) {
            pos[seg[i].row + k] = seg[i].pos + k;
            of[seg[i].row + k] = i;
        }
    r.seg = dev_put(d, seg, (size_t)n_segs * sizeof *seg);
    r.pos = dev_put(d, pos, (size_t)r.n * sizeof *pos);
    r.of = dev_put(d, of, (size_t)r.n * sizeof *of);
    free(pos);
    free(of);
    return r;
}
static inline void rows_to(struct cu_attn *a, struct rows r) {
    a->n_tok = r.n;
    a->all_segs = r.seg;
    a->row_pos = r.pos;
    a->row_seg = r.of;
}

#endif
