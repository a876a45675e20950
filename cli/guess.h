// SPDX-License-Identifier: MIT
/* cli/guess.h - suggestions for unknown names: the nearest known name, or the counterpart of
 * another program's name (cli/peers.def). */
#ifndef HONE_CLI_GUESS_H
#define HONE_CLI_GUESS_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the only name that begins with `typed`, otherwise the name with the fewest edits, or NULL
 * if none is near or `typed` has fewer than three letters. `next` returns the i-th name, and NULL
 * after the last. */
const char *guess_name(const char *typed, const char *(*next)(void *ctx, int i), void *ctx);

/* An option of another program. */
struct peer_option {
    const char *name;     /* theirs, without dashes, '-' for '_' */
    const char *commands; /* our commands to which the row applies, separated by commas; "": all */
    const char *ours;     /* our option with the same meaning; "": the first argument; NULL: none */
    const char *say;      /* advice to print if the option is not accepted; NULL: none */
};
/* Returns the first row for this name [n] and command that `fits` accepts, or NULL. Names of two or
 * more characters match in any case, and with '_' for '-'. */
const struct peer_option *peer_option(const char *name, size_t n, const char *command,
                                      bool (*fits)(void *ctx, const struct peer_option *p),
                                      void *ctx);

/* Returns advice on what to use instead of another program's command, or NULL. */
const char *peer_command(const char *name);

#endif
