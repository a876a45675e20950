// SPDX-License-Identifier: MIT
/* calib/select.h - selection of the documents that most help rarely used experts.
 *
 * A cell is an expert of a layer. If n tokens reach a cell, its own statistics contribute a share
 * of n / (n + 256) to its quantization weights; the layer's mean contributes the rest
 * (imat_weights). The worth of a set of documents is the sum of these shares over all cells. It is
 * monotone and submodular, so repeatedly taking the document with the most worth per token is close
 * to optimal (docs/design/calibration.md). */
#ifndef HONE_CALIB_SELECT_H
#define HONE_CALIB_SELECT_H

#include <stdint.h>

#include "base/err.h"

struct sel_doc {
    int64_t n_tokens;
    const uint8_t *count; /* its cells with tokens, as varint pairs: cells skipped, tokens */
    int64_t n_hit;        /* number of pairs */
};
struct sel {
    int64_t n_cells;
    struct sel_doc *doc;
    int64_t n_docs, cap;
    uint8_t **block; /* storage of the counts */
    int64_t n_blocks;
    uint8_t *at;   /* next free byte */
    uint64_t left; /* bytes left in the last block */
};
/* Initializes s with no documents. Memory: two bytes per cell that a document reaches (more for
 * counts and gaps above 127), 24 per document, and 256 KiB. */
void sel_init(struct sel *s, int64_t n_cells);
void sel_release(struct sel *s);
/* Adds a document of n_tokens > 0 tokens, of which count[n_cells] reach each cell. */
int sel_add(struct sel *s, int64_t n_tokens, const uint32_t *count, struct err *e);

/* Adds a document's tokens to tokens[n_cells]. */
void sel_count(const struct sel *s, int64_t doc, double *tokens);
/* Returns the worth of a set of documents, the sum of shares over n cells. */
double sel_worth(const double *tokens, int64_t n);
/* Returns how much a document would add to the worth. */
double sel_gain(const struct sel *s, int64_t doc, const double *tokens);

struct sel_pick {
    int64_t doc;
    double gain; /* worth that it added when picked */
};
/* Picks documents of at most `budget` tokens in total: repeatedly the one with the most gain per
 * token among those that fit (ties: the lower number), until none that fits has a gain. If the
 * single best document is worth more, picks only that. tokens[n_cells] holds the existing counts on
 * entry and the resulting ones on return. *out lists the picks in order; free with free(). */
int64_t sel_greedy(const struct sel *s, int64_t budget, double *tokens, struct sel_pick **out);
/* Picks documents in random order (`seed`), each that still fits, and adds their tokens to
 * tokens[]; for comparison. */
void sel_random(const struct sel *s, int64_t budget, uint64_t seed, double *tokens);

#endif
