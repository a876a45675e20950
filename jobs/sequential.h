// SPDX-License-Identifier: MIT
/* jobs/sequential.h - second moments of the inputs that a quantized file will really see. */
#ifndef HONE_JOBS_SEQUENTIAL_H
#define HONE_JOBS_SEQUENTIAL_H

#include "jobs/work.h"
#include "quantize/quantize.h"

struct sequential_opts {
    const struct quantize_opts
        *q; /* the file that will be made: input, recipe, importance, search */
    struct str_list texts;
    int64_t ctx, chunks; /* tokens of a chunk, 0: 512; most chunks, 0: all */
    const char *out;     /* where the moments go (docs/formats/gram.md), for quantize's gram */
};
/* Goes through the model block by block. Each block is shown the texts twice, behind the original
 * blocks before it and behind the quantized ones; from what enters its products in the second case,
 * and by how much that differs from the first, the block is quantized as q asks, and the next one
 * follows. The moments written make quantize_run encode every block as it was here. Memory: the
 * moments, the encoded weights, and two residuals per token of the texts. ERR_USAGE where the graph
 * cannot begin at a block. */
int sequential_moments(struct work *w, const struct sequential_opts *o, struct err *e);

#endif
