// SPDX-License-Identifier: MIT
/* text/size.h - parsers for sizes and durations in human notation. */
#ifndef HONE_TEXT_SIZE_H
#define HONE_TEXT_SIZE_H

#include <stdint.h>

#include "base/err.h"

/* Parses a size in bytes, such as "16GiB", "700M" or "24 gb". ERR_USAGE, naming `what`: the text is
 * not a size, or is a number below 1 MiB without a unit. */
int size_parse(const char *text, const char *what, uint64_t *out, struct err *e);
/* Parses a duration, such as "90s", "12h" or "1h30m", and sets *out to it in seconds. Only 0 needs
 * no unit. ERR_USAGE, naming `what`: not a duration. */
int time_parse(const char *text, const char *what, double *out, struct err *e);
/* Parses a job's time limit like time_parse(), except that a number without a unit is in hours. */
int hours_parse(const char *text, const char *what, double *out, struct err *e);
/* Parses a number of tokens, such as "131072" or "128K", where K is 1024 and M is 1024 K.
 * ERR_USAGE, naming `what`: not a number of tokens. */
int tokens_parse(const char *text, const char *what, int64_t *out, struct err *e);

#endif
