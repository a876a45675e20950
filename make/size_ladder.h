// SPDX-License-Identifier: MIT
/* make/size_ladder.h - size classes, and one rung of the ladder: the file of a class, chosen from
 * some candidates that are no larger than the preset of that name. docs/design/make.md has the
 * decision rules. */
#ifndef HONE_MAKE_SIZE_LADDER_H
#define HONE_MAKE_SIZE_LADDER_H

#include "make/make.h"

enum { LADDER_CANDS = 2 };
/* Returns the canonical name of a size class, whatever case it is given in; NULL: not a class of
 * the ladder. */
const char *ladder_find(const char *name);

struct size_class {
    const char *name;
    uint64_t bytes;   /* of the preset of that name */
    const char *same; /* class of the same size whose name more people look for; NULL: none */
};
/* Orders n classes by size, largest first, and sets `same` of those whose size is within half a
 * percent of another's. */
void ladder_order(struct size_class *v, int n);

struct cand {          /* a candidate for the file of a class, in the work folder */
    char *file, *path; /* name within the job, and path; owned */
    struct made made;  /* filled by measuring */
    bool there;
};
struct rung {
    const char *name; /* name of the class and of the preset it is compared with */
    uint64_t budget;  /* bytes of that preset */
    struct cand plain, cand;
    bool passed;       /* cand is better than plain */
    bool mix;          /* cand is a mix; otherwise the preset with error feedback */
    bool block;        /* cand was made block by block; plain is then the best single-pass file */
    bool replaces;     /* then: plain is an earlier candidate that passed, not the preset */
    bool fed;          /* the best file has error feedback */
    double predicted;  /* predicted divergence of the mix */
    double preset_kld; /* mean divergence of the preset of that name; 0: not measured */
    double sure;       /* standard errors by which the single-pass file is closer than it, or the
                          one made block by block if only that is */
    bool decided;      /* the comparison under way ended early */
    double ratio;      /* then: divergence of the loser relative to the winner's */
    int64_t n_windows; /* windows on which the preset of that name was measured */
    char why[1280];
};
struct verdict_in {          /* results on the same windows */
    const char *what, *than; /* "the mix", "the plain Q4_K_M" */
    double kld, kld_plain, p99, p99_plain, p999, p999_plain, diff, diff_stderr;
    int64_t n_tokens;      /* scored positions */
    int64_t n_windows, of; /* windows measured; windows in all */
};
/* Returns whether a candidate is better than the preset: its mean is lower, as predicted when its
 * types were chosen, and its 99.9 % value exceeds the preset's by at most two standard errors.
 * `why` receives a sentence with the numbers, which mentions a difference that is within the
 * error. */
bool ladder_verdict(const struct verdict_in *v, char *why, size_t cap);

/* Numbers of windows, in random order, after which a comparison is looked at. */
enum { LADDER_LOOKS = 4 };
extern const int64_t ladder_looks[LADDER_LOOKS];
enum look { LOOK_MORE, LOOK_BETTER, LOOK_WORSE }; /* of the candidate */
/* Decides early. LOOK_WORSE: the candidate's mean is higher. LOOK_BETTER: its mean is lower,
 * ladder_verdict passes it, and its 99 % value is lower by two standard errors. The chance that a
 * comparison ever finds the wrong mean lower is at most LADDER_ERROR: each look tests each side of
 * the paired difference at LADDER_ERROR / (2 * LADDER_LOOKS), by Student's t over windows. */
#define LADDER_ERROR 0.001
enum look ladder_look(const struct verdict_in *v);

#endif
