// SPDX-License-Identifier: MIT
/* calib/select.h - which documents of a pool help cold experts most.
 *
 * A cell is an expert of a layer. With n tokens its own statistics have the share n / (n + 256) in
 * the weights that quantization uses (the rest is the layer's mean: imat_weights), and the worth of
 * a set of documents is the sum of these shares over all cells. It never falls and each document
 * adds less the more there is (monotone, submodular), which is why taking the document of the most
 * worth per token, again and again, is near the best. docs/design/calibration.md */
#ifndef HONE_CALIB_SELECT_H
#define HONE_CALIB_SELECT_H

#include <stdint.h>

#include "base/err.h"

struct sel_doc {
    int64_t n_tokens;
    const uint8_t
        *count;    /* its cells with tokens: pairs of varints, cells passed over and tokens */
    int64_t n_hit; /* pairs */
};
struct sel {
    int64_t n_cells;
    struct sel_doc *doc;
    int64_t n_docs, cap;
    uint8_t **block; /* what the counts lie in */
    int64_t n_blocks;
    uint8_t *at;   /* where the next counts go */
    uint64_t left; /* bytes from there to the end of the last block */
};
/* Begins without documents. Memory is two bytes per cell that a document reaches (more past 127
 * tokens or cells), 24 per document, and 256 KiB. */
void sel_init(struct sel *s, int64_t n_cells);
void sel_release(struct sel *s);
/* Adds a document of n_tokens > 0 tokens. count[n_cells] has its tokens per cell. */
int sel_add(struct sel *s, int64_t n_tokens, const uint32_t *count, struct err *e);

/* Adds a document's tokens to tokens[n_cells]. */
void sel_count(const struct sel *s, int64_t doc, double *tokens);
/* Returns the sum of shares over n cells. */
double sel_worth(const double *tokens, int64_t n);
/* Returns what a document adds to it. */
double sel_gain(const struct sel *s, int64_t doc, const double *tokens);

struct sel_pick {
    int64_t doc;
    double gain; /* of worth, when it was taken */
};
/* Documents in the order they are taken, of at most `budget` tokens together: the one of the most
 * gain per token that still fits, ties to the lower number, till none fits that gains; or the
 * single best document where that is worth more. tokens[n_cells]: what there is already; becomes
 * what there is then. *out: free(). */
int64_t sel_greedy(const struct sel *s, int64_t budget, double *tokens, struct sel_pick **out);
/* Counts the tokens of documents in an order drawn by `seed`, each that still fits; for
 * comparison. */
void sel_random(const struct sel *s, int64_t budget, uint64_t seed, double *tokens);

#endif
