// SPDX-License-Identifier: MIT
/* text/shell.h - words of command lines that users copy into a shell, or from it. */
#ifndef HONE_TEXT_SHELL_H
#define HONE_TEXT_SHELL_H

#include "base/buf.h"

/* Appends a word quoted for the shell: 'it'\''s'. */
void shell_word(struct buf *b, const char *s);
/* Returns the text that a shell reads as one word, without its quotes and backslashes; NULL: it is
 * not one word. The caller frees it. */
char *shell_read(const char *s);

#endif
