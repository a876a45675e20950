// SPDX-License-Identifier: MIT
/* cli/cmd.h - entry points of the commands in commands.def; argv[0] is the command's name. */
#ifndef HONE_CLI_CMD_H
#define HONE_CLI_CMD_H

#include "cli/opt.h"
#include "base/err.h"

#define COMMAND(name, id, summary)                                                                 \
    int cmd_##id(struct cli *c, int argc, char **argv, struct err *e);
#include "cli/commands.def"
#undef COMMAND

#endif
