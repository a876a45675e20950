// SPDX-License-Identifier: MIT
/* mix/sequential.h - a file made block by block, each with inputs from the quantized blocks before
 * it. */
#ifndef HONE_MIX_SEQUENTIAL_H
#define HONE_MIX_SEQUENTIAL_H

#include "work/work.h"
#include "quantize/quantize.h"

struct sequential_opts {
    const struct quantize_opts
        *q; /* the file that is made: input, recipe, importance, search; gram is not read */
    struct str_list texts;
    int64_t ctx, chunks; /* tokens of a chunk, 0: 512; most chunks, 0: all */
    const char *keep;    /* where the moments go (docs/formats/gram.md); NULL: beside the output
                            while it is written, then nowhere */
};
/* Goes through the model block by block. Each block is shown the texts twice, behind the original
 * blocks before it and behind the quantized ones; from what enters its products in the second case,
 * and by how much that differs from the first, the block is quantized as q asks, and the next one
 * follows; the head comes last. With the moments that are kept quantize_run makes the same bytes.
 * Memory: the moments, the encoded weights, and two residuals per token of the texts. ERR_USAGE
 * where the graph cannot begin at a block. */
int sequential_quantize(struct work *w, const struct sequential_opts *o, struct quantize_report *r,
                        struct err *e);

#endif
