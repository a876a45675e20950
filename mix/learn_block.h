// SPDX-License-Identifier: MIT
/* mix/learn_block.h - codes, scales and vectors of one block of a quantized model that follow the
 * gradient of its output's error. */
#ifndef HONE_MIX_LEARN_BLOCK_H
#define HONE_MIX_LEARN_BLOCK_H

#include "mix/learn.h"

struct learn_block_opts {
    struct learn_opts o; /* tensors: those of the block */
    int block;
    struct progress *progress; /* counts learn_block_chunks for the block; NULL: none */
    const float *x, *y; /* [n_chunks][ctx][n_embd] the block's input, and the wanted output */
};
struct learn_block_report {
    double before, after; /* squared error of the output on held-out chunks */
};
/* Changes the block's tensors (quantize/learn.h; also codes, if their types allow it) so that its
 * output comes closer to y. The state with the lowest error on the held-out chunks is kept. The
 * bytes do not depend on the number of threads. Needs the memory of grad_new and 13 bytes per
 * weight of the block. Fails like learn_check. */
int learn_block(const struct learn_block_opts *o, struct learn_block_report *r, struct err *e);
/* Returns the chunks that learn_block runs through a block in a number of passes, without checks.
 */
int64_t learn_block_chunks(int64_t n_chunks, int passes);

#endif
