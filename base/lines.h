// SPDX-License-Identifier: MIT
/* base/lines.h - a file that gets lines from several threads, each whole or not at all. A line that
 * a killed process or a full disk tore is ended before the next one. */
#ifndef HONE_BASE_LINES_H
#define HONE_BASE_LINES_H

#include <stdbool.h>

#include "base/err.h"

struct lines;
/* Opens `path`, which is borrowed, for lines at its end. `what` names the file in messages, as the
 * option that it came by: borrowed. secret: only its owner may read it; the rights of a file that
 * others can read are taken away, with a warning, and a file of another owner is refused. A file
 * that holds something else than JSON lines is refused, and a pipe without a reader. */
int lines_open(struct lines **out, const char *path, const char *what, bool secret, struct err *e);
/* Adds a line, given without its end. When the file was moved away a new one gets it, as programs
 * that rotate logs want it. Returns false when it is not there, or not whole: a pipe that is not
 * read loses lines after a second. */
bool lines_put(struct lines *l, const char *line);
void lines_close(struct lines *l); /* NULL is fine */

#endif
