// SPDX-License-Identifier: MIT
/* calib/defaults.h - built-in default texts, written for this project. The calibration and
 * evaluation sets share no documents. The evaluation set is also divided into domains, most of
 * which only `hone versus` measures. */
#ifndef HONE_CALIB_DEFAULTS_H
#define HONE_CALIB_DEFAULTS_H

#include <stdbool.h>
#include <stddef.h>

struct default_text {
    const char *name;       /* "default-calib.txt"; also the file name when exported */
    const char *data, *end; /* *end is 0 */
    const char *about;      /* kinds of text, and version, for model cards */
    bool is_eval;
    bool is_chat; /* .jsonl of conversations; needs a chat template */
};
/* Returns the i-th text; NULL past the end. */
const struct default_text *default_text_at(int i);
/* Returns the description of the built-in text with that file name; NULL: none. */
const char *default_text_about(const char *name);
size_t default_text_len(const struct default_text *t);

struct default_domain {
    const char *name; /* "prose", "chat", "code", "ja", ... */
    struct default_text text;
};
/* Returns the i-th domain of the built-in evaluation texts; NULL past the end. The first two,
 * "prose" and "chat", are the evaluation texts of default_text_at. */
const struct default_domain *default_domain_at(int i);
/* Returns the domain with that name; NULL: none. */
const struct default_domain *default_domain(const char *name);
/* Returns a suite of cases for any model (runtime/measure/suite.h): "builtin", 60 tool calls
 * (tests/oracle/tool_suite.py); "loops", 13 tools in loops, or "checks", 16 checks
 * (tests/oracle/loop_suite.py). NULL: another name. */
const struct default_text *default_suite(const char *name);

#endif
