// SPDX-License-Identifier: MIT
/* calib/coverage.h - expert coverage: number of tokens that reached each expert, layer by layer. */
#ifndef HONE_CALIB_COVERAGE_H
#define HONE_CALIB_COVERAGE_H

#include "quantize/imat_file.h"

/* COVER_RARE: with fewer tokens, an expert's own statistics are unreliable. COVER_ENOUGH:
 * calibration aims for this number of tokens for every expert. */
enum { COVER_RARE = 256, COVER_ENOUGH = 1024 };

struct cover_expert {
    int64_t id;
    double tokens; /* minimum over its matrices */
};
struct cover_layer {
    int64_t block, n;            /* block number; experts */
    struct cover_expert *expert; /* [n], fewest tokens first, then by id */
    /* Tokens summed over experts: text tokens times experts per token. */
    double total;
    double least, p1, median, most; /* token counts; p1: 1st percentile */
    /* Experts with 0, 1 to COVER_RARE - 1, 1 to COVER_ENOUGH - 1 tokens. */
    int64_t n_unseen, n_rare, n_short;
};
struct coverage {
    struct cover_layer *layer; /* blocks with experts, ascending */
    int64_t n_layers;
};
/* Computes the coverage. A dense model's matrix gives no layers. */
void coverage_make(const struct imat *m, struct coverage *out);
/* Appends a layer, given its block and the tokens that each of its experts received. Zero *c before
 * the first call; add blocks in ascending order. */
void coverage_add(struct coverage *c, int64_t block, const double *tokens, int64_t n_experts);
void coverage_release(struct coverage *c);

#endif
