// SPDX-License-Identifier: MIT
/* make/machines.h - machines with a card that one could rent or buy, for forecasts. */
#ifndef HONE_MAKE_MACHINES_H
#define HONE_MAKE_MACHINES_H

#include "make/estimate.h"

struct machine_row {
    const char *name;
    int threads;    /* each as fast as a thread of this machine */
    double card;    /* bytes of the card's memory that weights may take */
    double product; /* floating-point operations per second in passes with f32 activations */
    double
        encode; /* seconds per weight of the encoders' fast search, reading and writing included */
    double memory, disk; /* free bytes of the host, bytes read per second */
};
/* Returns the i-th machine; NULL: there are no more. */
const struct machine_row *machine_at(int i);
/* Fills *out with the rates of machine m, from the quiet speeds of this machine with `threads`
 * threads, whose texts `here` has counted. As in the program today, the card runs passes and the
 * encoders' own search; what does not fit on it, error feedback, second moments and gradients stay
 * on the processor. */
void machine_rates(const struct machine_row *m, const struct rates *here,
                   const struct speeds *quiet, int threads, const struct shapes *s,
                   const struct estimate_opts *o, struct rates *out);

#endif
