// SPDX-License-Identifier: MIT
/* make/rates.h - speed of the steps of `hone make` on this machine, for one model: timed forward
 * passes of the model itself if they are short enough, otherwise rates guessed from the model's
 * shapes and the machine's speed. */
#ifndef HONE_MAKE_RATES_H
#define HONE_MAKE_RATES_H

#include "make/estimate.h"
#include "make/make.h"

/* Returns the options that the forecast depends on. */
void rates_opts(const struct make *mk, struct estimate_opts *out);
/* Returns whether timing passes of the model, converted or not, takes at most a few seconds in a
 * dry run, or a model in memory otherwise. `r` are guessed rates. */
bool rates_worth_running(const struct rates *r, const struct make *mk, const struct shapes *s);
/* Measures the machine and guesses the rates of the model. */
int rates_first(struct rates *r, struct make *mk, const struct shapes *s, struct err *e);
/* Times passes of a converted model and replaces the guesses. */
int rates_model(struct rates *r, struct make *mk, const struct shapes *s, const char *base,
                struct err *e);

#endif
