// SPDX-License-Identifier: MIT
/* calib/select.h - selection of the documents that help rarely used experts most.
 *
 * A cell is an expert of a layer. With n tokens, a cell's own statistics have a share of n / (n
 * + 256) in its quantization weights (the rest is the layer's mean, see imat_weights). The worth
 * of a set of documents is the sum of these shares over all cells. It is monotone and
 * submodular, so repeatedly taking the document with the most worth per token is close to
 * optimal (docs/design/calibration.md). */
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
/* Initializes s without documents. Memory: two bytes per cell that a document reaches (more
 * beyond 127 tokens or cells), 24 per document, and 256 KiB. */
void sel_init(struct sel *s, int64_t n_cells);
void sel_release(struct sel *s);
/* Adds a document of n_tokens > 0 tokens, with count[n_cells] of them per cell. */
int sel_add(struct sel *s, int64_t n_tokens, const uint32_t *count, struct err *e);

/* Adds a document's tokens to tokens[n_cells]. */
void sel_count(const struct sel *s, int64_t doc, double *tokens);
/* Returns the worth: the sum of shares over n cells. */
double sel_worth(const double *tokens, int64_t n);
/* Returns the worth that a document would add. */
double sel_gain(const struct sel *s, int64_t doc, const double *tokens);

struct sel_pick {
    int64_t doc;
    double gain; /* worth it added when taken */
};
/* Takes documents of at most `budget` tokens in total: always the one with the most gain per
 * token that still fits, ties to the lower number, until none fits with a gain; or the single
 * best document if that is worth more. tokens[n_cells] are the existing counts and become the
 * resulting ones. *out lists the documents in that order; free with free(). */
int64_t sel_greedy(const struct sel *s, int64_t budget, double *tokens, struct sel_pick **out);
/* Counts the tokens of documents in random order (`seed`), taking each that still fits; for
 * comparison. */
void sel_random(const struct sel *s, int64_t budget, uint64_t seed, double *tokens);

#endif
