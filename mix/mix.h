// SPDX-License-Identifier: MIT
/* mix/mix.h - solver for the best choice of one option per group under a byte budget: Lagrangian
 * bound, then the exact optimum. Options are (bytes, loss) pairs; tensors are unknown here. */
#ifndef HONE_MIX_MIX_H
#define HONE_MIX_MIX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { MIX_MAX_OPTS = 64 };
struct mix_opt {
    uint64_t bytes; /* added to the file by this option, padding included */
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
    double gap;       /* loss - bound, also for an exact result */
    bool exact;       /* proven optimal; false: the search dropped states */
    int64_t n_states; /* states kept by the search, a measure of its work */
};
/* Minimizes the sum of losses with sum of bytes <= budget; ties go to fewer bytes. ERR_USAGE,
 * naming the smallest possible sum, if nothing fits. */
int mix_solve(struct mix_result *r, const struct mix_group *group, int n_groups, uint64_t budget,
              struct err *e);
void mix_release(struct mix_result *r);

#endif
