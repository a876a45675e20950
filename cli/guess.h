// SPDX-License-Identifier: MIT
/* cli/guess.h - what somebody meant who typed a name that is not ours: the nearest of our names, or
 * what other programs of the field call it (cli/peers.def). */
#ifndef HONE_CLI_GUESS_H
#define HONE_CLI_GUESS_H

#include <stdbool.h>
#include <stddef.h>

/* The name that is most like `typed` by edits, or that alone begins with it; NULL: none is near.
 * Names of one or two letters are never guessed. `next` gives the names one by one, then NULL. */
const char *guess_name(const char *typed, const char *(*next)(void *ctx, int i), void *ctx);

/* How other programs call an option. */
struct peer_option {
    const char *name;     /* theirs, without dashes, '-' for '_' */
    const char *commands; /* of ours, separated by commas, that the row is for; "": all */
    const char *ours;     /* of the same meaning, taken with its value; "": the first argument */
    const char *say;      /* the answer where it is not taken; NULL: none */
};
/* The first row for a name of n characters in this command that `fits` accepts; NULL: none. Case
 * and '_' do not count in names of two and more characters. */
const struct peer_option *peer_option(const char *name, size_t n, const char *command,
                                      bool (*fits)(void *ctx, const struct peer_option *p),
                                      void *ctx);

/* What to use instead of a command of another program; NULL: not known. */
const char *peer_command(const char *name);

#endif
