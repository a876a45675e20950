// SPDX-License-Identifier: MIT
/* calib/defaults.h - the texts used when the user names none: written for this project, compiled
 * in. The calibration and the evaluation set share no document. */
#ifndef HONE_CALIB_DEFAULTS_H
#define HONE_CALIB_DEFAULTS_H

#include <stdbool.h>
#include <stddef.h>

struct default_text {
    const char *name;       /* "default-calib.txt": also its file name when written out */
    const char *data, *end; /* *end is 0 */
    const char *about;      /* kinds of text, and version, for model cards */
    bool is_eval;
    bool is_chat; /* .jsonl of conversations: needs a chat template */
};
/* Returns a text, or NULL past the end. */
const struct default_text *default_text_at(int i);
/* Returns the description of the built-in text of that file name; NULL: no such text. */
const char *default_text_about(const char *name);
size_t default_text_len(const struct default_text *t);
/* Returns 60 tool calls for any model (runtime/measure/suite.h), which tests/oracle/tool_suite.py
 * made. */
const struct default_text *default_suite(void);

#endif
