// SPDX-License-Identifier: MIT
/* make/size_ladder.c - the list of size classes, and the verdict on one candidate. */
#include "make/size_ladder.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "quantize/quantize.h"

const char *ladder_find(const char *name) {
    for (int i = 0; recipe_ladder(i); i++)
        if (strcasecmp(recipe_ladder(i), name) == 0) return recipe_ladder(i);
    return NULL;
}

/* Relative difference up to which two sizes count as equal. */
static const double equal = .005;

/* Returns whether two files have nearly the same size. */
static bool same_size(const struct size_class *a, const struct size_class *b) {
    const double x = (double)a->bytes, y = (double)b->bytes;
    return fabs(x - y) <= equal * fmax(x, y);
}

void ladder_order(struct size_class *v, int n) {
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && v[k].bytes > v[k - 1].bytes; k--) {
            const struct size_class larger = v[k];
            v[k] = v[k - 1];
            v[k - 1] = larger;
        }
    for (int rank = 1; recipe_ladder(rank - 1); rank++)
        for (int i = 0; i < n; i++)
            for (int k = 0; k < n && recipe_rank(v[i].name) == rank && !v[i].same; k++)
                if (recipe_rank(v[k].name) < rank && !v[k].same && same_size(&v[i], &v[k]))
                    v[i].same = v[k].name;
}

const int64_t ladder_looks[LADDER_LOOKS] = {8, 16, 32, 64};

/* Returns the relative standard error of the difference of two files' quantiles that n positions
 * exceed. Tails of divergences fall off roughly with the square, so that of one is 1 / (2
 * sqrt(n)). */
static double quantile_stderr(double n) {
    return sqrt(2) / (2 * sqrt(fmax(1, n)));
}

enum look ladder_look(const struct verdict_in *v) {
    /* Student's t of 7, 15, 31 and 63 degrees of freedom at LADDER_ERROR / (2 * LADDER_LOOKS) */
    static const double limit[LADDER_LOOKS] = {6.8141, 4.7661, 4.1360, 3.8829};
    const double below = 1 - 2 * quantile_stderr((double)v->n_tokens / 100);
    char unused[512];
    int i = 0;
    while (i < LADDER_LOOKS && ladder_looks[i] != v->n_windows) i++;
    if (i == LADDER_LOOKS || !(v->diff_stderr > 0)) return LOOK_MORE;
    if (v->diff > limit[i] * v->diff_stderr) return LOOK_WORSE;
    const bool lower = v->diff < -limit[i] * v->diff_stderr && v->p99 <= v->p99_plain * below;
    return lower && ladder_verdict(v, unused, sizeof unused) ? LOOK_BETTER : LOOK_MORE;
}

bool ladder_verdict(const struct verdict_in *v, char *why, size_t cap) {
    const double slack = 2 * quantile_stderr((double)v->n_tokens / 1000);
    char early[80] = "";
    if (v->n_windows < v->of)
        snprintf(early, sizeof early, ", clear after %" PRId64 " of %" PRId64 " windows",
                 v->n_windows, v->of);
    bool sure = v->diff < -3 * v->diff_stderr, tail = v->p999 <= v->p999_plain * (1 + slack);
    snprintf(why, cap,
             "%s has mean KLD %.6f, %s of this size %.6f (paired difference %+.6f +- "
             "%.6f), 99.9 %% KLD %.5f against %.5f%s%s",
             v->what, v->kld, v->than, v->kld_plain, v->diff, v->diff_stderr, v->p999,
             v->p999_plain, early,
             sure && tail   ? ""
             : v->diff >= 0 ? ": its mean is not lower"
             : tail         ? ": lower by less than three standard errors"
                            : ": its 99.9 % KLD is larger by more than two standard errors");
    return v->diff < 0 && tail;
}
