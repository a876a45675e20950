// SPDX-License-Identifier: MIT
/* text/textfile.h - reader and checks of text files for calibration and evaluation. A job may spend
 * hours on one, so a file that is not text is rejected up front. */
#ifndef HONE_TEXT_TEXTFILE_H
#define HONE_TEXT_TEXTFILE_H

#include <stddef.h>

#include "base/err.h"

/* Reads a plain or gzip text, without a byte order mark; "-" is standard input. Free *out with
 * free(). ERR_DATA if text_check() rejects it. */
int text_read_file(char **out, size_t *len, const char *path, struct err *e);
/* Checks that the bytes are plausible UTF-8 text: they do not start like a known binary format and
 * contain no NUL, and at most 1/8 of them is invalid UTF-8. Otherwise returns ERR_DATA; the message
 * names the format found and suggests a remedy. A text with few invalid bytes only causes a
 * warning. */
int text_check(const char *data, size_t len, const char *path, struct err *e);
/* Checks a file in advance that a job may need only hours later. Skips standard input, because it
 * can be read only once. */
int text_check_file(const char *path, struct err *e);

#endif
