// SPDX-License-Identifier: MIT
/* cli/guess.h - what somebody meant who typed a name that is not ours: the nearest of our names, or
 * what other programs of the field call it (cli/peers.def). */
#ifndef HONE_CLI_GUESS_H
#define HONE_CLI_GUESS_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the only name that begins with `typed`, else the one that differs from it by the fewest
 * edits. `next` gives the i-th name, and NULL behind the last. Names of one or two letters are
 * never guessed. Returns NULL when no name is near. */
const char *guess_name(const char *typed, const char *(*next)(void *ctx, int i), void *ctx);

/* How other programs call an option. */
struct peer_option {
    const char *name;     /* theirs, without dashes, '-' for '_' */
    const char *commands; /* of ours, separated by commas, that the row is for; "": all */
    const char *ours;     /* of the same meaning, taken with its value; "": the first argument */
    const char *say;      /* the answer where it is not taken; NULL: none */
};
/* Returns the first row for a name of n characters in this command that `fits` accepts; `ctx` is
 * passed to it. Case and '_' for '-' do not count in names of two and more characters. Returns NULL
 * when there is none. */
const struct peer_option *peer_option(const char *name, size_t n, const char *command,
                                      bool (*fits)(void *ctx, const struct peer_option *p),
                                      void *ctx);

/* Returns the advice on what to use instead of a command of another program, or NULL when that
 * command is not known. */
const char *peer_command(const char *name);

#endif
