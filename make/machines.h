// SPDX-License-Identifier: MIT
/* make/machines.h - machines with a GPU that users could rent or buy, for forecasts. */
#ifndef HONE_MAKE_MACHINES_H
#define HONE_MAKE_MACHINES_H

#include "make/estimate.h"

struct machine_row {
    const char *name;
    int threads;         /* each as fast as a thread of this machine */
    double card;         /* memory of the card that weights may take, in bytes */
    double product;      /* floating-point operations per second in passes with f32 activations */
    double encode;       /* seconds per weight for the encoders' fast search, including reading and
                            writing */
    double memory, disk; /* free memory of the host in bytes; bytes read per second */
    double fed;          /* seconds per weight for error feedback of types with one code per weight,
                            in stages of 128 rows; 0: not on the card */
};
/* Returns the i-th machine; NULL: there are no more. */
const struct machine_row *machine_at(int i);
/* Fills *out with the rates of machine m, based on `quiet`, the speeds of this machine with
 * `threads` threads when it is idle; `here` supplies the sizes of the texts. As in the current
 * program, the card runs passes, the encoders' own search and, for models without experts, error
 * feedback of types with one code per weight. Other error feedback, second moments, gradients and
 * whatever does not fit on the card stay on the processor. */
void machine_rates(const struct machine_row *m, const struct rates *here,
                   const struct speeds *quiet, int threads, const struct shapes *s,
                   const struct estimate_opts *o, struct rates *out);
/* Fills *out with the rates that this machine (its rates without a card: `here`) would have if its
 * card, which has `card` bytes of memory, were the fastest one in the table. */
void machine_with_card(double card, const struct rates *here, int threads, const struct shapes *s,
                       const struct estimate_opts *o, struct rates *out);

#endif
