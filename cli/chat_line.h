// SPDX-License-Identifier: MIT
/* cli/chat_line.h - state of a conversation on a terminal, shared by its loop (chat_line.c) and its
 * commands (chat_cmd.c). */
#ifndef HONE_CLI_CHAT_LINE_H
#define HONE_CLI_CHAT_LINE_H

#include "cli/line.h"
#include "cli/cmd_run.h"

struct chatting {
    struct run_cli *x;
    struct run *r; /* the job, borrowed from x */
    struct screen *screen;
    struct line *line;
    struct run_answer a; /* last message of the conversation, if has_answer */
    bool has_answer;
    bool warned; /* already warned of a nearly full context */
    bool done;
};
/* Answers the conversation, adds the answer to it, and prints notes and speed. mine: the last
 * message is new; it is removed if there is no answer. Returns whether there is one. */
bool chat_answer(struct chatting *u, bool mine);
/* Continues the last answer. */
void chat_more(struct chatting *u);

/* ---- commands ---- */

enum chat_kind { CHAT_TEXT, CHAT_COMMAND, CHAT_UNKNOWN };
/* Classifies a line. CHAT_TEXT: *rest is the text to send ("//x" sends "/x"). CHAT_COMMAND:
 * *command is the number for chat_do() and *rest its arguments. */
enum chat_kind chat_parse(const char *text, int *command, const char **rest);
/* Returns the command closest to an unknown one, without its slash, or NULL. */
const char *chat_near(const char *text);
/* Runs command number `command`; rest: the text after its name. */
void chat_do(struct chatting *u, int command, const char *rest);
extern const char *const chat_words[]; /* "/help", ...; NULL at the end */

#endif
