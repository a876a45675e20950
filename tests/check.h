// SPDX-License-Identifier: MIT
/* tests/check.h - the whole test framework. A program has test_* functions called from main() with
 * RUN(), prints only failures, and ends with `return check_done();`: "name: N passed, N failed".
 * Exit 77 (check_skip) means skipped, counted aloud by tests/run.sh. */
#ifndef HONE_TESTS_CHECK_H
#define HONE_TESTS_CHECK_H

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static int check_failed_here, check_n_passed, check_n_failed;

#define CHECK_FAIL(...)                                                                            \
    do {                                                                                           \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                            \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        check_failed_here = 1;                                                                     \
    } while (0)
#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) CHECK_FAIL("failed: %s", #cond);                                              \
    } while (0)
#define CHECK_EQ_I64(a, b)                                                                         \
    do {                                                                                           \
        int64_t a_ = (int64_t)(a), b_ = (int64_t)(b);                                              \
        if (a_ != b_) CHECK_FAIL("%s is %" PRId64 ", expected %" PRId64, #a, a_, b_);              \
    } while (0)
#define CHECK_EQ_STR(a, b)                                                                         \
    do {                                                                                           \
        const char *a_ = (a), *b_ = (b);                                                           \
        if (!a_ || strcmp(a_, b_) != 0)                                                            \
            CHECK_FAIL("%s is \"%s\", expected \"%s\"", #a, a_ ? a_ : "(null)", b_);               \
    } while (0)
#define CHECK_CLOSE(a, b, tol)                                                                     \
    do {                                                                                           \
        double a_ = (double)(a), b_ = (double)(b);                                                 \
        if (!(fabs(a_ - b_) <= (double)(tol)))                                                     \
            CHECK_FAIL("%s is %.9g, expected %.9g", #a, a_, b_);                                   \
    } while (0)
#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        if ((call) != 0) CHECK_FAIL("%s: %s", #call, e.msg);                                       \
    } while (0)
/* The call must fail with this code and a message holding the text. Needs `struct err e`. */
#define CHECK_ERR(call, want, text)                                                                \
    do {                                                                                           \
        e.msg[0] = 0;                                                                              \
        int rc_ = (call);                                                                          \
        if (rc_ != (int)(want) || !strstr(e.msg, text))                                            \
            CHECK_FAIL("%s: code %d, message \"%s\"; expected %d, \"%s\"", #call, rc_, e.msg,      \
                       (int)(want), text);                                                         \
    } while (0)
#define RUN(test)                                                                                  \
    do {                                                                                           \
        check_failed_here = 0;                                                                     \
        test();                                                                                    \
        if (check_failed_here) {                                                                   \
            fprintf(stderr, "FAIL %s\n", #test);                                                   \
            check_n_failed++;                                                                      \
        } else                                                                                     \
            check_n_passed++;                                                                      \
    } while (0)

/* 1 when an address sanitizer was compiled in, which is slow and adds memory of its own. */
#if defined(__SANITIZE_ADDRESS__)
enum { CHECK_SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { CHECK_SANITIZED = 1 };
#else
enum { CHECK_SANITIZED = 0 };
#endif
#else
enum { CHECK_SANITIZED = 0 };
#endif

static inline int check_done(void) {
    printf("%d passed, %d failed\n", check_n_passed, check_n_failed);
    return check_n_failed ? 1 : 0;
}
static inline int check_skip(const char *why) {
    printf("SKIP: %s\n", why);
    return 77;
}

#endif
