// SPDX-License-Identifier: MIT
/* runtime/eval/suite_int.h - what the files of suites share. */
#ifndef HONE_RUNTIME_EVAL_SUITE_INT_H
#define HONE_RUNTIME_EVAL_SUITE_INT_H

#include "runtime/eval/suite.h"

/* One kind of check. `value` is what the case gives for it. */
struct check {
    const char *name;
    /* NULL, or one clause on what is wrong with the value. */
    const char *(*malformed)(const struct json *value);
    /* *ok and, when false, why. */
    int (*run)(const struct json *value, const struct answer *a, bool *ok, struct buf *why,
               struct err *e);
};
extern const struct check check_table[];
extern const int check_count;

/* Expected calls one by one, and how many there are. */
const struct json *expect_first(const struct json *expect);
const struct json *expect_next(const struct json *expect, const struct json *call);
int64_t expect_len(const struct json *expect);
/* The tool of that name among the case's, its "function" object; NULL: not offered. */
const struct json *case_tool(const struct json *c, const char *name);
/* Do the arguments satisfy the tool's parameters? Anything does where it declares none. */
int call_valid(const struct json *c, const struct json *call, bool *ok, struct buf *why,
               struct err *e);
/* The parts of a verdict on tool calls. */
int calls_judge(const struct suite_case *c, const struct answer *a, struct verdict *v,
                struct err *e);

#endif
