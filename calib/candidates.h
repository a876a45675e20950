// SPDX-License-Identifier: MIT
/* calib/candidates.h - the documents of a pool of texts, and which experts their tokens meet. */
#ifndef HONE_CALIB_CANDIDATES_H
#define HONE_CALIB_CANDIDATES_H

#include "calib/coverage.h"
#include "calib/imatrix.h"
#include "calib/select.h"
#include "base/buf.h"

struct candidate {
    int text;       /* index of its file */
    int64_t number; /* in that file: struct corpus_doc */
    uint64_t hash;  /* of its tokens */
};
struct candidates {
    int n_layers; /* blocks with experts */
    int *block;   /* [n_layers] */
    int64_t
        *first; /* [n_layers + 1]: cells of layer i are first[i] .. first[i + 1] - 1, by expert */
    struct candidate *of; /* [sel.n_docs], in the order of the files */
    int64_t cap;
    struct sel sel;
    int64_t n_tokens, n_duplicates; /* equal tokens as an earlier document: left out */
};
/* Begins with the layers and experts of a model and no documents. ERR_DATA when it has no
 * experts. */
int candidates_init(struct candidates *c, const struct model *m, struct err *e);
/* Runs every document through the model, alone, in pieces of o->ctx tokens (each from an empty
 * context, as imatrix_collect does); the head is not computed. Uses texts, n_texts, ctx,
 * parse_special, isa, pool and device of o. The trunk only: a block that drafts tokens is not run.
 */
int candidates_route(struct candidates *c, const struct model *m, const struct imatrix_opts *o,
                     struct err *e);
void candidates_release(struct candidates *c); /* works on a zeroed struct */

/* Takes tokens[sel.n_cells] out of an importance matrix; where that says nothing they are 0.
 * ERR_DATA when it knows of no tokens per expert of this model. */
int candidates_have(const struct candidates *c, const struct imat *m, double *tokens,
                    struct err *e);
/* Gives the same numbers as coverage, which coverage_release frees. */
void candidates_coverage(const struct candidates *c, const double *tokens, struct coverage *out);

/* Writes the lines of a .jsonl in the order of the picks; it reads the files again. */
int candidates_lines(const struct candidates *c, const struct model *m,
                     const struct imatrix_opts *o, const struct sel_pick *pick, int64_t n_picks,
                     struct buf *out, struct err *e);

#endif
