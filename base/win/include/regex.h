// SPDX-License-Identifier: MIT
/* base/win/include/regex.h - POSIX regular expressions by PCRE2: of several matches at one place it
 * takes the first, not the longest, which does not matter for the question whether there is one. */
#ifndef HONE_WIN_REGEX_H
#define HONE_WIN_REGEX_H

#include <pcre2posix.h>

#endif
