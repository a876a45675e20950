// SPDX-License-Identifier: MIT
/* runtime/engine/weight.h - reference-counted weights: immutable blocks, and the packed rows or
 * device copies derived from them.
 *
 * `struct weight` is what operations read: blocks, shape and, in a session with packed rows
 * (runtime/engine/pack.h), those rows. It is a value and may be copied freely. All copies refer to
 * the same `struct weight_mem`, which owns the memory. Models of one file, candidates with a few
 * replaced weights, draft models and sessions share it, and the last reference frees it. Derived
 * forms are therefore created once for all users. */
#ifndef HONE_RUNTIME_ENGINE_WEIGHT_H
#define HONE_RUNTIME_ENGINE_WEIGHT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "containers/gguf.h"
#include "containers/qtype.h"

struct weight_copy;  /* device copy: runtime/engine/cuda/copy.c */
struct weight_rows { /* packed rows, in groups of the size that an instruction set computes with */
    int rows;
    const uint8_t *data;
    bool mapped; /* from a file (pack_cache.h), otherwise allocated */
    void *own;   /* owner of data; release(own) frees it */
    void (*release)(void *own);
};
enum { WEIGHT_FORMS = 4 }; /* maximum number of group sizes kept at a time; kernels use 8 and 16 */

struct weight_mem {
    atomic_int n_refs;
    const struct gguf *file; /* file and tensor of the blocks; NULL: `given` */
    const struct gguf_tensor *tensor;
    void *given;                  /* blocks of a candidate */
    void (*release)(void *given); /* called with `given` at the end; NULL: borrowed */
    pthread_mutex_t lock; /* guards the fields below, which only grow while the weight is shared */
    struct weight_rows packed[WEIGHT_FORMS];
    int n_packed;
    struct weight_copy *copies;
};

struct weight {
    const void *data; /* GGUF blocks */
    enum qtype type;
    int64_t ne[4];
    uint64_t row_bytes;
    uint64_t mat_bytes; /* distance in bytes between matrices (experts) of ne[1] rows */
    uint64_t n_bytes;
    const uint8_t *packed; /* packed form in use; NULL: none */
    int pack_rows;
    /* Factors of the products, one or one per matrix (gguf_scales); NULL: none. The blocks do not
     * include them. */
    const float *scale;
    int64_t n_scales;
    struct weight_mem *mem;
};

/* Initializes a weight from a tensor of an open file, which must outlive it. */
void weight_of_file(struct weight *out, const struct gguf *g, const struct gguf_tensor *t);
/* Initializes a weight that replaces `like`: given blocks of the same shape and any type, with the
 * same scales. The last reference releases them; release NULL: they are borrowed and must outlive
 * the weight. On error, the caller still owns them. ERR_DATA: the type cannot store rows of this
 * length. */
int weight_given(struct weight *out, const struct weight *like, const char *name, void *data,
                 enum qtype type, void (*release)(void *), struct err *e);
/* Adds a reference; weight_drop releases one, clears *w and accepts a cleared one. */
void weight_keep(const struct weight *w);
/* Drops w's reference to its data and zeroes w. */
void weight_drop(struct weight *w);
/* Adds a reference; weight_mem_drop() releases it. */
void weight_mem_keep(struct weight_mem *m);
void weight_mem_drop(struct weight_mem *m); /* accepts NULL */
/* Returns the factor of the products of the matrix at `mat` (weight.scale). */
static inline float weight_scale(const struct weight *w, const uint8_t *mat) {
    if (!w->scale) return 1;
    const uint64_t at = (uint64_t)(mat - (const uint8_t *)w->data);
    return w->scale[w->n_scales > 1 ? at / w->mat_bytes : 0];
}
/* Returns whether both are the same weight, so that data derived from one is valid for the
 * other. */
static inline bool weight_same(const struct weight *a, const struct weight *b) {
    return a->mem == b->mem;
}

/* Returns the packed rows in groups of `rows`, or NULL. */
const uint8_t *weight_rows(const struct weight *w, int rows);
/* Attaches packed rows to w. If w already has this form, releases r. */
void weight_add_rows(const struct weight *w, const struct weight_rows *r);
/* Returns the size of the packed rows in all layouts, in memory or in mapped files. */
uint64_t weight_packed_bytes(const struct weight *w, bool mapped);

#endif
