// SPDX-License-Identifier: MIT
/* make/candidates.h - candidates for the file of a size class, in the work folder: the preset with
 * and without error feedback, the best mix, and the best of these made block by block. */
#ifndef HONE_MAKE_CANDIDATES_H
#define HONE_MAKE_CANDIDATES_H

#include "make/size_ladder.h"

struct ladder { /* classes that are all made with, or all without, error feedback */
    struct make *mk;
    int from, to;      /* their indices in mk->classes */
    struct rung *rung; /* [n] rungs that still have no file */
    int n;
    char *gram;         /* file of second moments; NULL: none */
    char gram_hash[33]; /* "" without moments */
    char *sens, sens_hash[33];
    enum search search;       /* for mixes and for presets with feedback */
    enum search plain_search; /* for presets */
};
/* Adds everything that a mix of this rung depends on to the step's key. */
void cand_keys(const struct ladder *l, const struct rung *r, struct step *s);
/* Begins the step KIND-NAME for a rung. */
void cand_step(const struct ladder *l, const char *kind, const struct rung *r, struct step *s);
/* Prepares a preset candidate, plain or with feedback, and looks up its record. */
int cand_find_preset(const struct ladder *l, struct rung *r, struct cand *c, bool feedback,
                     struct quantize_opts *o, struct err *e);
/* Makes the preset of a rung unless its record exists. With `feedback`: as the rung's candidate,
 * encoded with error feedback. */
int cand_preset(const struct ladder *l, struct rung *r, bool feedback, struct err *e);
/* Sets the names of the rung's mix. *known: an earlier run has made it. */
int cand_find_mix(const struct ladder *l, struct rung *r, bool *known, struct err *e);
/* Makes the mixes of all rungs, in one pass over the base, unless their records exist. */
int cand_mixes(const struct ladder *l, struct err *e);
/* Makes a candidate with the same types as the best file so far, but block by block, to be compared
 * with that file. There is no such candidate if the architecture or memory does not allow it. */
int cand_block(const struct ladder *l, struct rung *r, struct err *e);
/* Removes a candidate. A mix's plan stays in the work folder for reference. */
void cand_remove(const struct cand *c);
/* Removes the candidates that interrupted jobs left in the work folder: of classes, and of --budget
 * the mixes with their plans and the recipes that they are compared with. */
int cand_remove_left(const struct job *j, struct err *e);

#endif
