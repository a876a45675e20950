// SPDX-License-Identifier: MIT
/* cli/command.h - the table of commands and its interpreter. */
#ifndef HONE_CLI_COMMAND_H
#define HONE_CLI_COMMAND_H

#include "cli/opt.h"

const struct subcommand *command_table(int *n);
/* Moves the command before common options that precede it. */
void command_to_front(int argc, char **argv);
/* Runs the command argv[1] (also help and --version), then flushes c->out; ERR_SYS if that fails.
 * Without argv[1] prints the overview to stderr and returns ERR_USAGE without a message. The caller
 * sets c->work.ctx, which it also releases, c->out and c->form. Releases c->work.mem. */
int command_run(struct cli *c, int argc, char **argv, struct err *e);

#endif
