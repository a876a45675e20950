// SPDX-License-Identifier: MIT
/* mix/accept.h - is a mix better than the plain recipes that would fit as well? Measured on text
 * that took part in neither importance nor probes. docs/design/mix.md "The gate". */
#ifndef HONE_MIX_ACCEPT_H
#define HONE_MIX_ACCEPT_H

#include "work/work.h"
#include "quantize/quantize.h"

enum { GATE_PLAIN = 3 };
struct gate_plain { /* a recipe that fits */
    const char *name;
    uint64_t bytes;
    char *path; /* owned; NULL: to be made */
    bool ours;  /* made for the comparison */
};
struct gate {
    struct work *w;
    const char *base, *imatrix, *gram; /* as the mix was made; the last two may be NULL */
    const char *prefix;                /* of the paths of recipes' files that must be made */
    enum search search;
    struct str_list texts;
    int64_t ctx, chunks; /* windows, evenly over the texts; 0: all */
    /* filled */
    struct gate_plain plain[GATE_PLAIN];
    int n, best; /* the best of plain; -1: none fits */
    bool passed;
    char why[512];
};
/* Finds the largest plain recipes whose files have at most `budget` bytes. The caller may then set
 * the paths of files that exist. */
int gate_find(struct gate *g, uint64_t budget, struct err *e);
/* Makes the files that are missing, compares the mix with them, and sets best, passed and why. With
 * no recipe that fits, the mix has passed. */
int gate_judge(struct gate *g, const char *mix, struct err *e);
/* Removes the files that were made, but for those that were moved away. */
void gate_release(struct gate *g);

#endif
