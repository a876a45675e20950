// SPDX-License-Identifier: MIT
/* cli/command.h - the table of commands, and running one. */
#ifndef HONE_CLI_COMMAND_H
#define HONE_CLI_COMMAND_H

#include "cli/opt.h"

const struct subcommand *command_table(int *n);
/* Puts the command first where common options stand before it. */
void command_to_front(int argc, char **argv);
/* Runs the command that argv[1] names (also help and --version; none at all prints the overview to
 * stderr, ERR_USAGE without a message), then flushes c->out: a result that could not be written is
 * ERR_SYS. The caller set c->ctx, which it also releases, c->out and c->form; what the command made
 * in c->mem is released. */
int command_run(struct cli *c, int argc, char **argv, struct err *e);

#endif
