// SPDX-License-Identifier: MIT
/* base/win/include/posix.h - names of POSIX that the C library of Windows lacks. Included before
 * everything else by the Makefile. */
#ifndef HONE_WIN_POSIX_H
#define HONE_WIN_POSIX_H

#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#ifndef EDQUOT
#define EDQUOT 10069
#endif

/* Returns the first place of a text of n bytes in m bytes; NULL: none. */
void *memmem(const void *where, size_t m, const void *what, size_t n);
/* Returns the first place of a text in another, ignoring the case of ASCII letters; NULL: none. */
char *strcasestr(const char *where, const char *what);
/* Returns the seconds since 1970 of a time in UTC. */
time_t timegm(struct tm *t);

#endif
