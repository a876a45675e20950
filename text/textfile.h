// SPDX-License-Identifier: MIT
/* text/textfile.h - text files: calibration, evaluation, suites. A job may spend hours on one, so
 * files that are not text are refused up front. */
#ifndef HONE_TEXT_TEXTFILE_H
#define HONE_TEXT_TEXTFILE_H

#include <stddef.h>

#include "base/err.h"

/* Reads a plain or gzip text; "-" is standard input. Free *out with free(). ERR_DATA if text_check
 * refuses it. */
int text_read_file(char **out, size_t *len, const char *path, struct err *e);
/* Checks that the bytes are plausible UTF-8 text: they do not start like a known binary format,
 * contain no NUL, and at most 1/8 of them is invalid. ERR_DATA otherwise; the message identifies
 * the format and suggests a remedy. Warns about a text with few invalid bytes. */
int text_check(const char *data, size_t len, const char *path, struct err *e);
/* Checks a file that a job will need only hours later. Skips standard input, which can be read only
 * once. */
int text_check_file(const char *path, struct err *e);

#endif
