// SPDX-License-Identifier: MIT
/* base/win/include/fnmatch.h - matching of file name patterns: *, ? and [...]. */
#ifndef HONE_WIN_FNMATCH_H
#define HONE_WIN_FNMATCH_H

enum { FNM_NOMATCH = 1, FNM_CASEFOLD = 16 };
/* Returns 0 if the text matches the pattern, else FNM_NOMATCH. */
int fnmatch(const char *pattern, const char *text, int flags);

#endif
