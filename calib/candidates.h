// SPDX-License-Identifier: MIT
/* calib/candidates.h - documents of a pool of texts, and the experts that their tokens reach. */
#ifndef HONE_CALIB_CANDIDATES_H
#define HONE_CALIB_CANDIDATES_H

#include "calib/coverage.h"
#include "calib/imatrix.h"
#include "calib/select.h"
#include "base/buf.h"

struct candidate {
    int text;       /* index of its file */
    int64_t number; /* position in that file (struct corpus_doc) */
    uint64_t hash;  /* hash of its tokens */
};
struct candidates {
    int n_layers; /* blocks with experts */
    int *block;   /* [n_layers] */
    /* [n_layers + 1] cells of layer i: first[i] .. first[i + 1] - 1, by expert. */
    int64_t *first;
    struct candidate *of; /* [sel.n_docs], in file order */
    int64_t cap;
    struct sel sel;
    /* n_duplicates: dropped documents, which had the same tokens as an earlier one. */
    int64_t n_tokens, n_duplicates;
};
/* Initializes c with a model's layers and experts, without documents. Returns ERR_DATA if the
 * model has no experts. */
int candidates_init(struct candidates *c, const struct model *m, struct err *e);
/* Runs each document through the model separately, in chunks of o->ctx tokens, each from an empty
 * context as in imatrix_collect. Runs the trunk only: neither the head nor an MTP block. Uses
 * texts, n_texts, ctx, parse_special, isa, pool and device of o. */
int candidates_route(struct candidates *c, const struct model *m, const struct imatrix_opts *o,
                     struct err *e);
void candidates_release(struct candidates *c); /* accepts a zeroed struct */

/* Reads tokens[sel.n_cells] from an importance matrix; experts missing there get 0. Returns
 * ERR_DATA if it has no counts for the experts of this model. */
int candidates_have(const struct candidates *c, const struct imat *m, double *tokens,
                    struct err *e);
/* Converts the counts to coverage; free with coverage_release. */
void candidates_coverage(const struct candidates *c, const double *tokens, struct coverage *out);

/* Writes the picked documents as .jsonl lines, in pick order. Reads the files again. */
int candidates_lines(const struct candidates *c, const struct model *m,
                     const struct imatrix_opts *o, const struct sel_pick *pick, int64_t n_picks,
                     struct buf *out, struct err *e);

#endif
