// SPDX-License-Identifier: MIT
/* text/re.h - search with user-supplied regular expressions: those of evaluation suites, and
 * `pattern` in JSON schemas. Matching gives up after a fixed number of steps, so no pattern can
 * hang the program. */
#ifndef HONE_TEXT_RE_H
#define HONE_TEXT_RE_H

#include <stddef.h>

#include "base/err.h"

enum re_answer { RE_NO, RE_YES, RE_GAVE_UP };
/* Searches s[0..n) for the pattern. Perl syntax, Unicode; by default "." does not match a newline,
 * and "^" and "$" match only at the ends of the text; (?s) and (?m) change that. ERR_DATA: invalid
 * pattern, or s is not UTF-8. */
int re_search(const char *pattern, const char *s, size_t n, enum re_answer *out, struct err *e);
/* Like re_search, but a pattern that is not valid in Perl may be one of JavaScript, as JSON Schema
 * has them: \u0041, \u{41}, [] and [^]. */
int re_search_schema(const char *pattern, const char *s, size_t n, enum re_answer *out,
                     struct err *e);

#endif
