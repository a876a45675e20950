// SPDX-License-Identifier: MIT
/* text/shell.h - words of command lines that users copy into a shell. */
#ifndef HONE_TEXT_SHELL_H
#define HONE_TEXT_SHELL_H

#include "base/buf.h"

/* Appends a word quoted for the shell: 'it'\''s'. */
void shell_word(struct buf *b, const char *s);

#endif
