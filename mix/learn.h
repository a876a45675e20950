// SPDX-License-Identifier: MIT
/* mix/learn.h - scales, minima, norms and biases of a quantized model that follow the gradient of
 * its divergence from the original. */
#ifndef HONE_MIX_LEARN_H
#define HONE_MIX_LEARN_H

#include "quantize/learn.h"
#include "work/work.h"

struct dev_product;
struct learn_tensor { /* an encoded tensor of `now`, or an F32 vector */
    const char *name;
    void *data; /* its blocks or values, which are changed in place */
};
struct learn_opts {
    struct work *w;
    const struct model *base, *now; /* the original; the same graph with encoded tensors */
    const struct learn_tensor *tensor;
    int n_tensors;
    const int32_t *ids; /* [n_chunks][ctx] */
    int64_t ctx, n_chunks;
    int passes;                   /* over the text */
    struct dev_product *products; /* a device for large products, borrowed; NULL: none */
};
struct learn_report {
    double before, after; /* mean divergence of the held-out chunks */
    int64_t n_weights;    /* in blocks that were learned, and values of vectors */
    int64_t n_steps;
};
/* Enough chunks for one that is held out. */
enum { LEARN_LEAST_CHUNKS = 8 };
/* Checks, before the model is encoded, that its scales can be learned. ERR_DATA: fewer than
 * LEARN_LEAST_CHUNKS chunks, or an operation without a derivative. */
int learn_check(const struct model *base, int64_t n_chunks, struct err *e);
/* Changes the blocks of all tensors whose type can be learned (quantize/learn.h), except embeddings
 * and the head, and the factors of norms and biases. Every eighth chunk is held out, and the state
 * with the lowest divergence there is kept, so the result is never worse than the beginning on
 * these chunks. The bytes do not depend on the number of threads. Needs the memory of grad_new and
 * 6 bytes per weight. Fails like learn_check. */
int learn_run(const struct learn_opts *o, struct learn_report *r, struct err *e);

#endif
