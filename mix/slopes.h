// SPDX-License-Identifier: MIT
/* mix/slopes.h - what a relative error costs each group of a model, from gradients of a text. */
#ifndef HONE_MIX_SLOPES_H
#define HONE_MIX_SLOPES_H

#include "base/pool.h"
#include "mix/sens.h"
#include "runtime/engine/model.h"

struct slope_text {
    const int32_t *ids; /* [n_windows][ctx], borrowed */
    int64_t n_windows, ctx;
};
/* Fills the slope of every group whose tensors m computes with: to second order, the divergence of
 * its output over the relative error of the group (docs/design/mix.md, "Stages"). s is of m's file;
 * imat is as in sens_source. Where an operation has no derivative, or memory is short, all slopes
 * stay as they are, and a line says so. Takes about five passes over the text, on the CPU; memory
 * is that of grad_new, and four bytes for each row of a matrix. One rank (base/ranks.h) measures,
 * the others are told. */
int slopes_measure(struct sens *s, const struct model *m, const struct imat *imat,
                   const struct slope_text *t, enum kern_isa isa, struct pool *pool, struct err *e);

#endif
