// SPDX-License-Identifier: MIT
/* text/textfile.h - files of text: calibration, evaluation, suites. Hours may be spent on one, so
 * what is no text is refused before. */
#ifndef HONE_TEXT_TEXTFILE_H
#define HONE_TEXT_TEXTFILE_H

#include <stddef.h>

#include "base/err.h"

/* Reads a text, plain or gzip; "-" is standard input. free(*out). ERR_DATA for what text_check
 * refuses. */
int text_read_file(char **out, size_t *len, const char *path, struct err *e);
/* Checks that the bytes can be a text in UTF-8: the beginning is not that of a format that programs
 * read, there is no NUL byte, and at most an eighth of the bytes is not UTF-8. ERR_DATA otherwise;
 * the message says what it is and what to do. A text with a few bad bytes is warned of. */
int text_check(const char *data, size_t len, const char *path, struct err *e);
/* Opens, reads and forgets it: for a job that will need it after hours. Standard input, which can
 * be read once, is not looked at. */
int text_check_file(const char *path, struct err *e);

#endif
