// SPDX-License-Identifier: MIT
/* calib/stats.h - statistics of an importance matrix: one row of numbers per tensor. */
#ifndef HONE_CALIB_STATS_H
#define HONE_CALIB_STATS_H

#include "quantize/imat_file.h"

struct imat_stats { /* over the mean squared activation of each column, v = sum2/count */
    double sum, min, max, mean, stddev;
    double active;            /* fraction of columns with v > 1e-5 */
    double entropy_norm;      /* entropy of v/sum divided by log2 of the columns, 0..1 */
    double zd;                /* fraction of columns above the mean plus one standard deviation */
    double cosine;            /* similarity of v to the preceding block's v; NaN: none */
    double tokens;            /* largest count of the entry's matrices */
    int64_t n_unseen, n_rare; /* experts with 0 and with 1..255 tokens */
};
/* Computes the statistics of m->entry[i]. Excludes experts without tokens from the averages. */
void imat_describe(const struct imat *m, int64_t i, struct imat_stats *out);

#endif
