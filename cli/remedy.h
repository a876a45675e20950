// SPDX-License-Identifier: MIT
/* cli/remedy.h - errors of code that several commands share name options that the command at hand
 * may lack: "use --no-mtp" helps in hone convert, not in hone make. */
#ifndef HONE_CLI_REMEDY_H
#define HONE_CLI_REMEDY_H

#include "cli/opt.h"

/* Appends to the message which commands have an option that it names and that spec's command lacks,
 * or what that command calls it. `table` has the n commands of the program. */
void remedy_complete(const struct cmd_spec *spec, const struct subcommand *table, int n,
                     struct err *e);

#endif
