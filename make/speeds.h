// SPDX-License-Identifier: MIT
/* make/speeds.h - speeds of this machine for the work of `hone make`, independent of the model:
 * encoders and error feedback on random rows, matrix products, memory. They affect only forecasts,
 * never bytes. */
#ifndef HONE_MAKE_SPEEDS_H
#define HONE_MAKE_SPEEDS_H

#include <stdbool.h>

#include "containers/qtype.h"
#include "work/work.h"

/* Kinds of types in error feedback: one code per weight in blocks of 256, grids, blocks of 32. The
 * types of one kind take about the same time. */
enum fed_kind { FED_CODES, FED_GRIDS, FED_NARROW, FED_KINDS };
enum { FED_SMALL = 512, FED_LARGE = 2048 }; /* columns in the two trials of a kind */
struct fed_speed {  /* seconds, with all threads, for a matrix with that many columns */
    double choose;  /* choosing the shrinkage if the factors are known, once per tensor and type */
    double factors; /* the factors needed to choose, once per input (the same for all kinds) */
    double factor;  /* one more factor, for each matrix that has its own moments */
    double weight;  /* encoding, per weight */
};
struct speeds {                   /* with all threads of the job, on an idle machine */
    double product;               /* floating-point operations per second of matrix products */
    double bandwidth;             /* memory read, bytes per second */
    double encode[QT_COUNT];      /* seconds per weight, fast search; 0: not a candidate */
    double encode_best[QT_COUNT]; /* best search */
    /* Relative error of each type on random rows, which does not depend on the machine. */
    double error[QT_COUNT];
    struct fed_speed fed[FED_KINDS][2]; /* of FED_SMALL and FED_LARGE columns */
};
/* Returns the kind of a type in error feedback. */
enum fed_kind fed_kind(enum qtype t);
/* Returns these times for a block of n columns: by the power law through the two trials or, for
 * weights, by the straight line. */
double fed_choose(const struct speeds *s, enum fed_kind k, double n);
/* Returns the interpolated time, in seconds, to factorize moments of n columns. */
double fed_factors(const struct speeds *s, double n);
/* Returns the interpolated time, in seconds, of one more attempt with n columns. */
double fed_factor(const struct speeds *s, double n);
/* Returns the interpolated time per weight, in seconds, of error feedback with n columns. */
double fed_weight(const struct speeds *s, enum fed_kind k, double n);
/* Returns the speeds of a machine that does `by` times as much work per second. */
struct speeds speeds_scaled(const struct speeds *s, double by);
/* Finds the speeds that this machine has when it is idle, and sets *busy to the share of processor
 * time that other processes are taking now. Measuring takes a few seconds; the speeds are recorded
 * in a file in the user's cache folder (w->choices), named after processor, instruction sets,
 * version and number of threads. If there is a record, only products are timed. If the clock is
 * slower now, the recorded speeds are scaled; if the machine is much faster than recorded, it is
 * measured again. */
int speeds_find(struct speeds *s, double *busy, const struct work *w, struct err *e);
/* Write and read the record; speeds_read returns false if it is for a different instruction set or
 * number of threads. The caller frees the text. */
char *speeds_text(const struct speeds *s, const char *isa, int threads);
/* Parses recorded speeds. Returns false if they are for a different instruction set or thread
 * count. */
bool speeds_read(struct speeds *s, const char *text, const char *isa, int threads);

#endif
