// SPDX-License-Identifier: MIT
/* cli/line.h - a line from a person at a terminal: editing and history (libedit, which only line.c
 * includes), several lines in one by paste or Alt-Enter. On a terminal that cannot move its cursor
 * lines are read as they are. Text is UTF-8 whatever the locale is. */
#ifndef HONE_CLI_LINE_H
#define HONE_CLI_LINE_H

#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"

struct line;
enum line_end {
    LINE_TEXT, /* a line, without its end; what was pasted may hold newlines */
    LINE_INTR, /* interrupted: progress_interrupted() is true */
    LINE_EOF   /* the end of the input, or Ctrl-D in an empty line */
};
/* Makes a reader of lines, to be freed with line_free. `words` are what Tab completes at the start
 * of a line, NULL behind the last, borrowed. `history` is the path of the file of earlier lines;
 * NULL: there is none. */
struct line *line_new(const char *history, const char *const *words);
/* Frees the reader and leaves the terminal as it was found. l may be NULL. */
void line_free(struct line *l);
enum line_end line_read(struct line *l, const char *prompt, struct buf *out);
/* Adds a text to the history, of this run and of later ones: a file of mode 0600 with a JSON string
 * per line, at most LINE_HISTORY of the newest. What cannot be stored is not: no error. */
enum { LINE_HISTORY = 1000 };
void line_remember(struct line *l, const char *text);
/* Makes a line_read() that waits look at progress_interrupted(). Signal handlers may call it. */
void line_wake(void);
/* Sets the terminal as it was found, for signal handlers that end the program. */
void line_restore(void);
/* Returns the path of the history, $XDG_STATE_HOME/hone/history or ~/.local/state/hone/history,
 * which the caller frees with free(); NULL when neither is known. */
char *line_history_path(void);
/* Returns the version of the library that edits lines, for hone doctor. */
const char *line_library(void);

#endif
