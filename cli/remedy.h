// SPDX-License-Identifier: MIT
/* cli/remedy.h - hints for error messages of shared code that name an option which the current
 * command lacks: "use --no-mtp" helps in hone convert, but not in hone make. */
#ifndef HONE_CLI_REMEDY_H
#define HONE_CLI_REMEDY_H

#include "cli/opt.h"

/* Appends a hint to e's message if it names an option that spec's command lacks: the command's own
 * name for it, or the commands that have it. `table`: the program's n commands. */
void remedy_complete(const struct cmd_spec *spec, const struct subcommand *table, int n,
                     struct err *e);

#endif
