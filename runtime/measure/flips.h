// SPDX-License-Identifier: MIT
/* runtime/measure/flips.h - flips: answers of a model that differ from its base's. Equal accuracy
 * can hide them, because lost and gained answers cancel. */
#ifndef HONE_RUNTIME_MEASURE_FLIPS_H
#define HONE_RUNTIME_MEASURE_FLIPS_H

#include "base/emit.h"
#include "runtime/measure/eval.h"

struct eval_share {         /* n of `of` cases */
    double per_100, lo, hi; /* Wilson's 95 % interval; NaN if `of` is 0 */
    int64_t n, of;
};
struct eval_share eval_share_of(int64_t n, int64_t of);
/* Adds the fields PREFIX_per_100, PREFIX_lo and PREFIX_hi. */
void eval_share_emit(struct emit *m, const char *prefix, const char *title,
                     const struct eval_share *s);
/* Adds columns of these names and PREFIX_of; title: of the first; NULL: JSON and CSV only. */
void eval_share_columns(struct emit *m, const char *prefix, const char *title);
/* Adds a row's cells; `of` 0: empty cells. */
void eval_share_cells(struct emit *m, const struct eval_share *s);

/* Continues a prompt greedily from an empty state, for at most n_max tokens or until an end token,
 * and stores the continuation in *out. With `as`, the base's continuation, it ends before the first
 * token that differs from it: out->n is the number of equal tokens. */
int eval_greedy(struct session *s, const int32_t *prompt, int64_t n_prompt, int64_t n_max,
                const struct ids *as, struct ids *out, struct err *e);

#endif
