// SPDX-License-Identifier: MIT
/* cli/line.h - line editor with history (libedit, included only by line.c). Pasting and Alt-Enter
 * put several lines into one entry. A terminal that cannot move its cursor gets plain line input.
 * Text is UTF-8 in any locale. */
#ifndef HONE_CLI_LINE_H
#define HONE_CLI_LINE_H

#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"

struct line;
enum line_end {
    LINE_TEXT, /* a line without its line end; pasted text may contain newlines */
    LINE_INTR, /* interrupted: progress_interrupted() is true */
    LINE_EOF   /* the end of the input, or Ctrl-D in an empty line */
};
/* Creates a line reader; free it with line_free. `words`: Tab completions at the start of a line,
 * NULL-terminated, borrowed. `history`: path of the history file, or NULL. */
struct line *line_new(const char *history, const char *const *words);
/* Frees the reader and restores the terminal. l may be NULL. */
void line_free(struct line *l);
/* Reads an input, possibly of several lines, into out; returns how it ended. */
enum line_end line_read(struct line *l, const char *prompt, struct buf *out);
/* Adds a text to the history of this and later runs: a file of mode 0600 with a JSON string per
 * line, which keeps the newest LINE_HISTORY. Failures to save it are ignored. */
enum { LINE_HISTORY = 1000 };
/* Adds a text to the history and its file, unless it is too long. */
void line_remember(struct line *l, const char *text);
/* Makes a waiting line_read() check progress_interrupted(). Async-signal-safe. */
void line_wake(void);
/* Restores the terminal, for signal handlers that end the program. */
void line_restore(void);
/* Returns the path of the history, $XDG_STATE_HOME/hone/history or ~/.local/state/hone/history,
 * which the caller frees; NULL if neither is known. */
char *line_history_path(void);
/* Returns the version of libedit, for hone doctor. */
const char *line_library(void);

#endif
