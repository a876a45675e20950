// SPDX-License-Identifier: MIT
/* runtime/engine/weight.h - a weight as an object: blocks that never change, and what was made of
 * them.
 *
 * `struct weight` is what operations read: blocks, shape, and in a session that computes with
 * packed rows (runtime/engine/pack.h) these rows. It is a value and is copied freely. All copies of
 * one weight point to the same `struct weight_mem`, which owns the memory and is counted: the
 * models of one file, candidates with a few replaced weights, drafts and sessions all hold the same
 * one, and the last of them frees it. So whatever is made of a weight is made once, for all who use
 * it. */
#ifndef HONE_RUNTIME_ENGINE_WEIGHT_H
#define HONE_RUNTIME_ENGINE_WEIGHT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "containers/gguf.h"
#include "containers/qtype.h"

struct weight_copy;  /* on a device: runtime/engine/cuda/copy.c */
struct weight_rows { /* packed rows, as many to a group as an instruction set computes with */
    int rows;
    const uint8_t *data;
    bool mapped; /* from a file (pack_cache.h), else in memory of their own */
    void *own;   /* what keeps the data there; release(own) at the end */
    void (*release)(void *own);
};
enum { WEIGHT_FORMS = 4 }; /* sizes of groups that are kept at a time; kernels have 8 and 16 */

struct weight_mem {
    atomic_int n_refs;
    const struct gguf *file; /* where the blocks lie, and as which tensor; NULL: they were given */
    const struct gguf_tensor *tensor;
    void *given;                  /* blocks of a candidate, */
    void (*release)(void *given); /* called with them at the end; NULL: they are borrowed */
    pthread_mutex_t lock;         /* for what follows: both only grow while anybody can see them */
    struct weight_rows packed[WEIGHT_FORMS];
    int n_packed;
    struct weight_copy *copies;
};

struct weight {
    const void *data; /* GGUF blocks */
    enum qtype type;
    int64_t ne[4];
    uint64_t row_bytes;
    uint64_t mat_bytes; /* from one matrix (expert) to the next: ne[1] rows */
    uint64_t n_bytes;
    const uint8_t *packed; /* the same as packed rows; NULL: they are not used here */
    int pack_rows;
    struct weight_mem *mem;
};

/* Fills a weight with a tensor of an open file, which must stay open as long as the weight is
 * held. */
void weight_of_file(struct weight *out, const struct gguf *g, const struct gguf_tensor *t);
/* Fills a weight with blocks that replace those of `like`, in the same shape and any type. They
 * are released with the last holder; with release NULL they are borrowed and must live as long.
 * After an error they are still the caller's. ERR_DATA when rows of this length cannot be stored
 * in the type. */
int weight_given(struct weight *out, const struct weight *like, const char *name, void *data,
                 enum qtype type, void (*release)(void *), struct err *e);
/* Counts one holder more; weight_drop counts one less. weight_drop clears *w, and works on a
 * cleared one. */
void weight_keep(const struct weight *w);
void weight_drop(struct weight *w);
void weight_mem_keep(struct weight_mem *m);
void weight_mem_drop(struct weight_mem *m); /* NULL is fine */
/* Tells whether both are the same object, so that what was made of one serves the other. */
static inline bool weight_same(const struct weight *a, const struct weight *b) {
    return a->mem == b->mem;
}

/* Returns the packed rows in groups of `rows`, or NULL when there are none. */
const uint8_t *weight_rows(const struct weight *w, int rows);
/* Adds rows of w, when there are none of this form yet; else r is released. */
void weight_add_rows(const struct weight *w, const struct weight_rows *r);
/* Returns the bytes that packed rows of all forms take, in memory or in mapped files. */
uint64_t weight_packed_bytes(const struct weight *w, bool mapped);

#endif
