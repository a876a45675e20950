// SPDX-License-Identifier: MIT
/* cli/cmd_run.h - state shared by the files of hone run: the job (jobs/run.h) and its display.
 * cmd_run.c reads options, run_once.c runs one answer, chat_line.c holds a conversation. */
#ifndef HONE_CLI_CMD_RUN_H
#define HONE_CLI_CMD_RUN_H

#include "cli/opt.h"
#include "cli/screen.h"
#include "jobs/run.h"

struct run_cli {
    struct cli *c;
    struct run r;
    struct screen screen;
};

/* Streams one answer to the screen, or prints one JSON document at the end. text: the prompt, raw
 * with -p, otherwise a message; NULL: --chat alone. */
int run_one(struct run_cli *x, const char *text, size_t len, struct err *e);
/* Holds a conversation on the terminal. */
int run_chat(struct run_cli *x, struct err *e);

#endif
