// SPDX-License-Identifier: MIT
/* make/rates.h - speed of the steps of `hone make` on this machine, for one model: measured by
 * timing forward passes of the model itself if they are short enough, otherwise guessed from the
 * model's shapes and the machine's speed. */
#ifndef HONE_MAKE_RATES_H
#define HONE_MAKE_RATES_H

#include "make/estimate.h"
#include "make/make.h"

/* Fills in the options that the forecast depends on. */
void rates_opts(const struct make *mk, struct estimate_opts *out);
/* Returns whether it is worth timing passes of the model, converted or not: it must fit in memory
 * and, in a dry run, take at most a few seconds. `r` are guessed rates. */
bool rates_worth_running(const struct rates *r, const struct make *mk, const struct shapes *s);
/* Measures the machine and guesses the rates of the model. */
int rates_first(struct rates *r, struct make *mk, const struct shapes *s, struct err *e);
/* Times passes of a converted model and replaces the guesses. */
int rates_model(struct rates *r, struct make *mk, const struct shapes *s, const char *base,
                struct err *e);

#endif
