// SPDX-License-Identifier: MIT
/* runtime/measure/suite_int.h - what the files of suites share. */
#ifndef HONE_RUNTIME_MEASURE_SUITE_INT_H
#define HONE_RUNTIME_MEASURE_SUITE_INT_H

#include "runtime/measure/suite.h"

/* One kind of check. `value` is what the case gives for it. */
struct check {
    const char *name;
    /* Returns one clause on what is wrong with the value, or NULL. */
    const char *(*malformed)(const struct json *value);
    /* Sets ok and, when it is false, why. */
    int (*run)(const struct json *value, const struct answer *a, bool *ok, struct buf *why,
               struct err *e);
};
extern const struct check check_table[];
extern const int check_count;

/* Returns the first expected call; expect_next returns the next one, expect_len how many there
 * are. */
const struct json *expect_first(const struct json *expect);
const struct json *expect_next(const struct json *expect, const struct json *call);
int64_t expect_len(const struct json *expect);
/* Returns the tool of that name among the case's, which is its "function" object, or NULL when
 * it is not offered. */
const struct json *case_tool(const struct json *c, const char *name);
/* Tells in *ok whether the arguments satisfy the tool's parameters. Anything does where it
 * declares none. */
int call_valid(const struct json *c, const struct json *call, bool *ok, struct buf *why,
               struct err *e);
/* Judges the tool calls of an answer, part by part. */
int calls_judge(const struct suite_case *c, const struct answer *a, struct verdict *v,
                struct err *e);

#endif
