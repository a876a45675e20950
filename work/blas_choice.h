// SPDX-License-Identifier: MIT
/* work/blas_choice.h - choice between OpenBLAS (kernels/blas.h) and our kernels. `hone doctor`
 * times both and records where OpenBLAS is faster, in a file of two lines: the uses, and the
 * OpenBLAS build that was timed. No other command times them, so the moments of a text have the
 * same bits in every run on a machine. OpenBLAS is not used if doctor has never run, if a different
 * build is found, or with --isa NAME. */
#ifndef HONE_WORK_BLAS_CHOICE_H
#define HONE_WORK_BLAS_CHOICE_H

#include "kernels/blas.h"
#include "work/work.h"

/* Returns the uses of OpenBLAS allowed in this job, as a set (kernels/blas.h). 0: none. Loads the
 * library only if uses were recorded. Call it after work_pool. */
unsigned blas_choice(const struct work *w);
struct blas_tried {                            /* filled by blas_choice_measure */
    const char *why_not;                       /* NULL: found, and its results match ours */
    double ours[BLAS_USES], theirs[BLAS_USES]; /* 10^9 operations per second; 0: not timed */
    unsigned uses;
};
/* Measures OpenBLAS against the kernels of an instruction set, writes the times to *out, and
 * records the allowed uses in w->choices. Without OpenBLAS, out->why_not gives the reason and no
 * use is allowed. */
void blas_choice_measure(const struct work *w, enum kern_isa isa, struct blas_tried *out);

#endif
