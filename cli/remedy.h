// SPDX-License-Identifier: MIT
/* cli/remedy.h - completes errors of shared code that name an option which the current command does
 * not have: "use --no-mtp" helps in hone convert, but not in hone make. */
#ifndef HONE_CLI_REMEDY_H
#define HONE_CLI_REMEDY_H

#include "cli/opt.h"

/* Completes a message that names an option which spec's command does not have: appends that
 * command's own name for it, or the commands that have it. `table` has the program's n commands. */
void remedy_complete(const struct cmd_spec *spec, const struct subcommand *table, int n,
                     struct err *e);

#endif
