// SPDX-License-Identifier: MIT
/* mix/sequential.h - block-by-block quantization: each block is calibrated on inputs from the
 * quantized blocks before it. */
#ifndef HONE_MIX_SEQUENTIAL_H
#define HONE_MIX_SEQUENTIAL_H

#include "work/work.h"
#include "quantize/quantize.h"

struct sequential_opts {
    const struct quantize_opts
        *q; /* output file: input, recipe, importance, search; gram is ignored */
    struct str_list texts;
    int64_t ctx, chunks; /* tokens per chunk, 0: 512; maximum number of chunks, 0: all */
    /* Passes over the texts in which each block is learned once it is encoded (mix/learn_block.h),
     * and then again the whole model (mix/learn.h). Of a model with more than learn_most weights,
     * only vectors are learned, at the end; 0: no limit. Exact tensors (quantize/exact.h) are not
     * learned. */
    int learn;
    int64_t learn_most;
    /* For a file that may be left out: no error if the model or the texts allow no learning, but
     * ERR_USAGE if memory is short, even for moments that other files do without. */
    bool if_possible;
    bool inputs_only; /* without moments of output gradients */
    const char *keep; /* where to save the moments (docs/formats/gram.md); NULL: a temporary file
                         next to the output */
};
/* Quantizes the model block by block, after quantize_check. Each block runs the texts twice: on the
 * outputs of the original blocks, and on those of the quantized blocks. It is quantized with the
 * options in q, from the inputs of the second pass and their difference from those of the first;
 * the head comes last. quantize_run produces the same bytes from the saved moments. Tokens are
 * weighted by the original model's gradients (calib/gradients.h), if it has them. Memory: the
 * moments, the encoded weights, two residuals per token, four bytes per matrix and token, and what
 * grad_new needs. An interrupted run leaves the finished tensors in a checkpoint next to the output
 * (sequential_part), from which the same run resumes. ERR_USAGE if the graph cannot start at a
 * block. */
int sequential_quantize(struct work *w, const struct sequential_opts *o, struct quantize_report *r,
                        struct err *e);
#define SEQUENTIAL_PART ".blocks.part"
/* Returns the path of an output's checkpoint, OUT.blocks.part; the caller frees it. */
char *sequential_part(const char *out);

#endif
