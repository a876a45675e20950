// SPDX-License-Identifier: MIT
/* make/size_ladder.c - the list of size classes, and the verdict on one candidate. */
#include "make/size_ladder.h"

#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "quantize/quantize.h"

const char *ladder_find(const char *name) {
    for (int i = 0; recipe_ladder(i); i++)
        if (strcasecmp(recipe_ladder(i), name) == 0) return recipe_ladder(i);
    return NULL;
}

bool ladder_verdict(const struct verdict_in *v, char *why, size_t cap) {
    /* The 99.9 % value of n positions depends on n / 1000 of them. Tails of divergences fall off
     * roughly with the square, so the relative standard error of that value is 1 / (2 sqrt(n /
     * 1000)), and sqrt(2) times that for the difference of two files. */
    const double n = fmax(1, (double)v->n_tokens / 1000), slack = 2 * sqrt(2) / (2 * sqrt(n));
    bool sure = v->diff < -3 * v->diff_stderr, tail = v->p999 <= v->p999_plain * (1 + slack);
    snprintf(why, cap,
             "%s has mean KLD %.6f, %s of this size %.6f (paired difference %+.6f +- "
             "%.6f), 99.9 %% KLD %.5f against %.5f%s",
             v->what, v->kld, v->than, v->kld_plain, v->diff, v->diff_stderr, v->p999,
             v->p999_plain,
             sure && tail   ? ""
             : v->diff >= 0 ? ": its mean is not lower"
             : tail         ? ": lower by less than three standard errors"
                            : ": its 99.9 % KLD is larger by more than two standard errors");
    return v->diff < 0 && tail;
}
