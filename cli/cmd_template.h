// SPDX-License-Identifier: MIT
/* cli/cmd_template.h - the subcommands of hone template that live in cmd_template_fix.c. */
#ifndef HONE_CLI_CMD_TEMPLATE_H
#define HONE_CLI_CMD_TEMPLATE_H

#include "cli/opt.h"

int cmd_template_lint(struct cli *c, int argc, char **argv, struct err *e);
int cmd_template_fix(struct cli *c, int argc, char **argv, struct err *e);

#endif
