// SPDX-License-Identifier: MIT
/* calib/stats.c - statistics of importance matrices (docs/formats/imatrix.md, "statistics"). */
#include "calib/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the mean square of input i of matrix m; its count must not be 0. */
static double mean_square(const struct imat_entry *en, int64_t m, int64_t i) {
    return en->sum2[m * en->ne0 + i] / en->count[m];
}

/* Returns the entry of the preceding block with the same name after the block number, or NULL. */
static const struct imat_entry *previous(const struct imat *m, const struct imat_entry *en) {
    char *tail = NULL, name[128];
    if (strncmp(en->name, "blk.", 4) != 0) return NULL;
    long block = strtol(en->name + 4, &tail, 10);
    if (block < 1) return NULL;
    snprintf(name, sizeof name, "blk.%ld%s", block - 1, tail);
    return imat_find(m, name);
}

/* Returns the cosine of the entries' mean squares; NaN if their shapes differ or there is no
 * data. */
static double cosine_of(const struct imat_entry *a, const struct imat_entry *b) {
    double ab = 0, aa = 0, bb = 0;
    if (!b || b->ne0 != a->ne0 || b->n_mat != a->n_mat) return (double)NAN;
    for (int64_t m = 0; m < a->n_mat; m++) {
        if (a->count[m] <= 0 || b->count[m] <= 0) continue;
        for (int64_t i = 0; i < a->ne0; i++) {
            double x = mean_square(a, m, i), y = mean_square(b, m, i);
            ab += x * y, aa += x * x, bb += y * y;
        }
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : (double)NAN;
}

void imat_describe(const struct imat *m, int64_t idx, struct imat_stats *s) {
    const struct imat_entry *en = &m->entry[idx];
    double n = 0, sum2 = 0;
    memset(s, 0, sizeof *s);
    s->min = (double)INFINITY;
    for (int64_t k = 0; k < en->n_mat; k++) {
        if (en->count[k] > s->tokens) s->tokens = en->count[k];
        s->n_unseen += en->count[k] <= 0;
        s->n_rare += en->count[k] > 0 && en->count[k] < 256 && imat_is_experts(en);
        for (int64_t i = 0; en->count[k] > 0 && i < en->ne0; i++) {
            double v = mean_square(en, k, i);
            n++, s->sum += v, sum2 += v * v, s->active += v > 1e-5;
            if (v < s->min) s->min = v;
            if (v > s->max) s->max = v;
        }
    }
    s->cosine = cosine_of(en, previous(m, en));
    if (n == 0) {
        s->min = 0;
        return;
    }
    s->mean = s->sum / n;
    double var = sum2 / n - s->mean * s->mean;
    s->stddev = var > 0 ? sqrt(var) : 0;
    s->active /= n;
    double entropy = 0;
    for (int64_t k = 0; k < en->n_mat; k++)
        for (int64_t i = 0; en->count[k] > 0 && i < en->ne0; i++) {
            double v = mean_square(en, k, i), p = s->sum > 0 ? v / s->sum : 0;
            if (p > 0) entropy -= p * log2(p);
            s->zd += s->stddev > 0 && v - s->mean > s->stddev;
        }
    s->zd /= n;
    s->entropy_norm = n > 1 ? entropy / log2(n) : 0;
}
