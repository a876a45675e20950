// SPDX-License-Identifier: MIT
/* work/blas_choice.h - what OpenBLAS (kernels/blas.h) does on this machine. `hone doctor` times it
 * next to our kernels and keeps where it is faster, as isa_choice.h keeps the instruction set: a
 * file of two lines, the uses and the build of OpenBLAS that was timed. No other command times it,
 * so that the moments of a text have the same bits in every run on a machine. It is not used if
 * doctor was never asked, if another build is found, or with --isa NAME. */
#ifndef HONE_WORK_BLAS_CHOICE_H
#define HONE_WORK_BLAS_CHOICE_H

#include "kernels/blas.h"
#include "work/work.h"

/* Returns what OpenBLAS may do in this job, as a set of uses (kernels/blas.h); 0: nothing. Loads
 * it only if something was kept. Call it after work_pool. */
unsigned blas_choice(const struct work *w);
struct blas_tried {                            /* by blas_choice_measure */
    const char *why_not;                       /* NULL: it was found and computes what we do */
    double ours[BLAS_USES], theirs[BLAS_USES]; /* 10^9 operations per second; 0: not timed */
    unsigned uses;
};
/* Times it next to the kernels of an instruction set and keeps the result in w->choices. */
void blas_choice_measure(const struct work *w, enum kern_isa isa, struct blas_tried *out);

#endif
