// SPDX-License-Identifier: MIT
/* cli/cmd_template.h - the parts of hone template that live in other files. */
#ifndef HONE_CLI_CMD_TEMPLATE_H
#define HONE_CLI_CMD_TEMPLATE_H

#include "cli/opt.h"
#include "template/chat_vars.h"

int cmd_template_lint(struct cli *c, int argc, char **argv, struct err *e);
int cmd_template_fix(struct cli *c, int argc, char **argv, struct err *e);
/* Renders and prints with origins. */
int template_spans(struct cli *c, const struct jinja *t, const struct chat_case *k, struct err *e);

#endif
