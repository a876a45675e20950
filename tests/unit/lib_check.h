// SPDX-License-Identifier: MIT
/* tests/unit/lib_check.h - checks for calls of hone.h; the caller must have a variable struct
 * hone_error e. */
#ifndef HONE_TESTS_UNIT_LIB_CHECK_H
#define HONE_TESTS_UNIT_LIB_CHECK_H

#include <string.h>

#include "include/hone.h"
#include "tests/check.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != HONE_OK) CHECK_FAIL("%s: %s", #call, e.message);                             \
    } while (0)
/* Checks that the call fails with this status and that its message contains the text. */
#define NOT(call, want, text)                                                                      \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != (want) || e.status != (want) || !strstr(e.message, text))                       \
            CHECK_FAIL("%s: %d, \"%s\"", #call, rc_, e.message);                                   \
    } while (0)

#endif
