// SPDX-License-Identifier: MIT
/* cli/chat_line.h - a conversation on a terminal: what its loop (chat_line.c) and its commands
 * (chat_cmd.c) share. */
#ifndef HONE_CLI_CHAT_LINE_H
#define HONE_CLI_CHAT_LINE_H

#include "cli/line.h"
#include "cli/cmd_run.h"

struct chatting {
    struct run_cli *x;
    struct run *r; /* of x */
    struct screen *screen;
    struct line *line;
    struct run_answer a; /* the last message of the conversation, when has_answer */
    bool has_answer;
    bool warned; /* that the context is nearly full */
    bool done;
};
/* Answers the conversation as it is, shows what is to be said about the answer, and keeps it.
 * mine: the last message is new; it is taken back when nothing comes of it. */
void chat_answer(struct chatting *u, bool mine);
/* Goes on with the last answer. */
void chat_more(struct chatting *u);

/* ---- commands ---- */
enum chat_kind { CHAT_TEXT, CHAT_COMMAND, CHAT_UNKNOWN };
/* Tells what a line is. With CHAT_TEXT *rest is what to send ("//x" sends "/x"); with CHAT_COMMAND
 * *command is its number for chat_do(), and *rest is what follows its name. */
enum chat_kind chat_parse(const char *text, int *command, const char **rest);
/* Returns the command closest to an unknown one, without its slash; NULL: none is close. */
const char *chat_near(const char *text);
void chat_do(struct chatting *u, int command, const char *rest);
extern const char *const chat_words[]; /* "/help", ...; NULL at the end */

#endif
