// SPDX-License-Identifier: MIT
/* make/size_ladder.h - the size classes that people look for, and one rung of the ladder: the file
 * of a class, which is the best of some candidates of at most the bytes of the preset of that name.
 * docs/design/make.md says how it is decided. */
#ifndef HONE_MAKE_SIZE_LADDER_H
#define HONE_MAKE_SIZE_LADDER_H

#include "make/make.h"

enum { LADDER_CANDS = 2 };
/* Returns the canonical name of a size class that is given in any case, or NULL when it is no class
 * of the ladder. */
const char *ladder_find(const char *name);

struct cand {          /* a file that may become the class's; in the work folder */
    char *file, *path; /* its name within the job; owned */
    struct made made;  /* what measuring fills */
    bool there;
};
struct rung {
    const char *name; /* of the class and of the preset that it is measured against */
    uint64_t budget;  /* bytes of that preset */
    struct cand plain, cand;
    bool passed;       /* cand is better than plain */
    bool mix;          /* cand is a mix, else the preset with error feedback */
    bool block;        /* cand was made block by block, plain is the best file from one reading */
    bool fed;          /* the best file has error feedback */
    double predicted;  /* divergence of the mix */
    double preset_kld; /* measured divergence of the preset of that name; 0: not measured */
    char why[1280];
};
struct verdict_in {          /* measured on the same windows */
    const char *what, *than; /* "the mix", "the plain Q4_K_M" */
    double kld, kld_plain, p999, p999_plain, diff, diff_stderr;
    int64_t n_tokens; /* scored positions */
};
/* Tells whether a candidate is better than the preset by all that is known: its mean is lower, as
 * the choice of its types said, and its 99.9 % value is not larger by more than two standard
 * errors. `why` gets a sentence with the numbers, which says when the difference is within the
 * error. */
bool ladder_verdict(const struct verdict_in *v, char *why, size_t cap);

#endif
