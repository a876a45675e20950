// SPDX-License-Identifier: MIT
/* mix/mix.h - the best choice of one option per group under a byte budget: Lagrangian bound,
 * then the exact optimum. Knows nothing of tensors: options are (bytes, loss) pairs. */
#ifndef HONE_MIX_MIX_H
#define HONE_MIX_MIX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { MIX_MAX_OPTS = 64 };
struct mix_opt {
    uint64_t bytes; /* all that the choice adds to the file, padding included */
    double loss;    /* finite, >= 0 */
};
struct mix_group {
    const struct mix_opt *opt;
    int n_opts; /* 1 .. MIX_MAX_OPTS */
};
struct mix_result {
    int *pick; /* [n_groups]; mix_release */
    uint64_t bytes;
    double loss;
    double bound;     /* no choice that fits has less loss */
    double gap;       /* loss - bound, of an exact result too */
    bool exact;       /* proved optimal; false: the states of the search were thinned */
    int64_t n_states; /* kept by the search, a measure of its work */
};
/* Minimises the sum of losses with sum of bytes <= budget. Equal losses: fewer bytes. ERR_USAGE
 * with the smallest possible sum when nothing fits. */
int mix_solve(struct mix_result *r, const struct mix_group *group, int n_groups, uint64_t budget,
              struct err *e);
void mix_release(struct mix_result *r);

#endif
