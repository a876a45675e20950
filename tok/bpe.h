// SPDX-License-Identifier: MIT
/* tok/bpe.h - merge table and byte-pair merging over token ids. */
#ifndef HONE_TOK_BPE_H
#define HONE_TOK_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct bpe_slot {
    uint32_t left, right; /* left UINT32_MAX: free slot */
    uint32_t rank, id;
};
struct bpe {
    struct bpe_slot *slot;
    size_t mask; /* slots - 1 */
};
/* Creates an empty table for n_merges merges; ERR_SYS if memory runs out. */
int bpe_init(struct bpe *b, size_t n_merges, struct err *e);
void bpe_release(struct bpe *b);
/* Adds a merge: the pair (left, right) becomes id; lower ranks merge first. A repeated pair
 * replaces the earlier one. */
void bpe_put(struct bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t id);

struct bpe_work { /* scratch memory of one caller; zero-initialised: empty */
    int32_t *link;
    uint64_t *heap;
    size_t cap; /* items in each */
};
void bpe_work_release(struct bpe_work *w);
/* Merges sym[0..*n) in place and updates *n. O(n log n); *n < 2^31. */
int bpe_merge(const struct bpe *b, struct bpe_work *w, int32_t *sym, size_t *n, struct err *e);

#endif
