// SPDX-License-Identifier: MIT
/* calib/coverage.h - how well texts reached the experts of a mixture, layer by layer. */
#ifndef HONE_CALIB_COVERAGE_H
#define HONE_CALIB_COVERAGE_H

#include "quantize/imat_file.h"

/* Below COVER_RARE tokens an expert's own weights say little; COVER_ENOUGH is what calibration
 * should reach for each of them. */
enum { COVER_RARE = 256, COVER_ENOUGH = 1024 };

struct cover_expert {
    int64_t id;
    double tokens; /* the least of its matrices */
};
struct cover_layer {
    int64_t block, n;               /* block number; experts */
    struct cover_expert *expert;    /* [n], fewest tokens first, then by id */
    double total;                   /* sum of tokens: tokens of the texts times experts per token */
    double least, p1, median, most; /* of tokens; p1: 1 % of the experts have no more */
    int64_t n_unseen, n_rare, n_short; /* 0; 1 to COVER_RARE - 1; 1 to COVER_ENOUGH - 1 */
};
struct coverage {
    struct cover_layer *layer; /* blocks with experts, ascending */
    int64_t n_layers;
};
/* Always succeeds; no layers when the matrix is of a dense model. */
void coverage_make(const struct imat *m, struct coverage *out);
/* Appends a layer to a zeroed or grown structure: tokens[n_experts], blocks ascending. */
void coverage_add(struct coverage *c, int64_t block, const double *tokens, int64_t n_experts);
void coverage_release(struct coverage *c);

#endif
