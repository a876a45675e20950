// SPDX-License-Identifier: MIT
/* mix/mix.h - solver for the best choice of one option per group under a byte budget: Lagrangian
 * bound, then the exact optimum. Options are (bytes, loss) pairs; the solver knows nothing about
 * tensors. */
#ifndef HONE_MIX_MIX_H
#define HONE_MIX_MIX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { MIX_MAX_OPTS = 64 };
struct mix_opt {
    uint64_t bytes; /* bytes that this option adds to the file, including padding */
    double loss;    /* finite, >= 0 */
};
struct mix_group {
    const struct mix_opt *opt;
    int n_opts; /* 1 .. MIX_MAX_OPTS */
};
struct mix_result {
    int *pick; /* [n_groups]; freed by mix_release */
    uint64_t bytes;
    double loss;
    double bound;     /* lower bound on the loss of any choice that fits */
    double gap;       /* loss - bound; also set if the result is exact */
    bool exact;       /* proven optimal; false: the search dropped states */
    int64_t n_states; /* number of states that the search kept, a measure of its work */
};
/* Minimizes the sum of losses subject to sum of bytes <= budget; ties go to fewer bytes. ERR_USAGE
 * if nothing fits; the message gives the smallest possible sum. */
int mix_solve(struct mix_result *r, const struct mix_group *group, int n_groups, uint64_t budget,
              struct err *e);
void mix_release(struct mix_result *r);

#endif
