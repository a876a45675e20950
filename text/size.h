// SPDX-License-Identifier: MIT
/* text/size.h - sizes and times as people write them. */
#ifndef HONE_TEXT_SIZE_H
#define HONE_TEXT_SIZE_H

#include <stdint.h>

#include "base/err.h"

/* Reads a size, such as "16GiB", "700M" or "24 gb", into a number of bytes. Returns ERR_USAGE
 * naming `what` where the text is none, or a number without a unit below 1 MiB. */
int size_parse(const char *text, const char *what, uint64_t *out, struct err *e);
/* Reads a time, such as "90s", "12h" or "1h30m", into seconds. Only 0 may lack a unit. Returns
 * ERR_USAGE naming `what` for anything else. */
int time_parse(const char *text, const char *what, double *out, struct err *e);
/* Does the same for the limit of a job: a number without a unit counts hours. */
int hours_parse(const char *text, const char *what, double *out, struct err *e);
/* Reads a number of tokens, such as "131072" or "128K", where K is 1024 and M 1024 K. Returns
 * ERR_USAGE naming `what` for anything else. */
int tokens_parse(const char *text, const char *what, int64_t *out, struct err *e);

#endif
