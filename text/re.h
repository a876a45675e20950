// SPDX-License-Identifier: MIT
/* text/re.h - regular expressions that users write: checks of evaluation suites, `pattern` of JSON
 * schemas. Searching gives up after a fixed amount of work, so no pattern hangs the program. */
#ifndef HONE_TEXT_RE_H
#define HONE_TEXT_RE_H

#include <stddef.h>

#include "base/err.h"

enum re_answer { RE_NO, RE_YES, RE_GAVE_UP };
/* Searches s[0..n) for the pattern, anywhere in it. Perl syntax, Unicode; "." stops at a line's end
 * and "^", "$" are the ends of the text unless the pattern says (?s), (?m). ERR_DATA: no valid
 * pattern, or s is not UTF-8. */
int re_search(const char *pattern, const char *s, size_t n, enum re_answer *out, struct err *e);

#endif
