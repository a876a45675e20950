// SPDX-License-Identifier: MIT
/* base/lines.h - line-oriented log file shared by threads. Each line is written completely or not
 * at all. An incomplete line left by a killed process or a full disk is terminated before the next
 * line. */
#ifndef HONE_BASE_LINES_H
#define HONE_BASE_LINES_H

#include <stdbool.h>

#include "base/err.h"

struct lines;
/* Opens `path` (borrowed) for appending. `what` (borrowed) names the file in messages, usually by
 * its option. With `secret`, only the owner may read the file: permissions of other users are
 * removed with a warning, and a file that belongs to another user is refused. Also refused are
 * files that hold anything but JSON lines, and pipes without a reader. */
int lines_open(struct lines **out, const char *path, const char *what, bool secret, struct err *e);
/* Appends a line, given without its newline. If the file was moved away (log rotation), a new one
 * is created. Returns false if the line was not written completely, e.g. because the reader of a
 * pipe stalled for a second. */
bool lines_put(struct lines *l, const char *line);
void lines_close(struct lines *l); /* NULL is fine */

#endif
