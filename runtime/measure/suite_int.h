// SPDX-License-Identifier: MIT
/* runtime/measure/suite_int.h - checks and expected calls; internal to suites (suite.h). */
#ifndef HONE_RUNTIME_MEASURE_SUITE_INT_H
#define HONE_RUNTIME_MEASURE_SUITE_INT_H

#include "runtime/measure/suite.h"

/* One kind of check. `value` is what the case gives for it. */
struct check {
    const char *name;
    /* Returns a clause that describes the error in the value; NULL: valid. */
    const char *(*malformed)(const struct json *value);
    /* Sets *ok and, if false, the reason. */
    int (*run)(const struct json *value, const struct answer *a, bool *ok, struct buf *why,
               struct err *e);
};
extern const struct check check_table[];
extern const int check_count;

/* Return the first expected call, the next one, or the number of them. */
const struct json *expect_first(const struct json *expect);
/* Returns the expected call after `call`, or NULL; x: a case's "expect". */
const struct json *expect_next(const struct json *expect, const struct json *call);
/* Returns the number of expected calls; 0 for null. */
int64_t expect_len(const struct json *expect);
/* Returns the "function" object of the case's tool of that name; NULL: not offered. */
const struct json *case_tool(const struct json *c, const char *name);
/* Returns the schema of a tool's "function" object; NULL: it has none, or null. */
const struct json *parameters_of(const struct json *tool);
/* Returns whether an expected call is of the tool. */
bool is_expected(const struct suite_case *c, const char *name);
/* Sets *ok to whether the arguments satisfy the tool's parameters. A tool without a schema accepts
 * anything; so does, in a record, one with a malformed schema that the answer does not call. */
int call_valid(const struct suite_case *c, const struct json *call, bool *ok, struct buf *why,
               struct err *e);
/* Like suite_parse, but malformed schemas of tools that the answer does not call are accepted. no:
 * the number of the first line. */
int suite_parse_record(struct suite *s, const char *text, size_t len, long long no,
                       const char *path, struct err *e);
/* Judges the tool calls of an answer, grade by grade. */
int calls_judge(const struct suite_case *c, const struct answer *a, struct verdict *v,
                struct err *e);

#endif
