// SPDX-License-Identifier: MIT
/* base/json_int.h - a parsed JSON value, shared by json.c and json_query.c. */
#ifndef HONE_JSON_INT_H
#define HONE_JSON_INT_H

#include "base/json.h"

struct json {
    struct json *next, *child, *last;
    /* The name, decoded and as spelled in the source; both NULL in arrays. */
    const char *name, *raw_name;
    /* The value of a string or number, decoded and as spelled in the source. */
    const char *text, *raw;
    double num;
    uint32_t n_name, n_raw_name, n_text, n_raw, n_child;
    enum json_type type;
    bool truth;
};

#endif
