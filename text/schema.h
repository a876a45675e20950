// SPDX-License-Identifier: MIT
/* text/schema.h - does a JSON value satisfy a JSON Schema? Draft 2020-12 without references to
 * other documents, dynamic references and unevaluated*; `items` as a list is read as in draft 7.
 * `format` and other annotations assert nothing. Numbers are doubles, so integers beyond 2^53 are
 * rounded. */
#ifndef HONE_TEXT_SCHEMA_H
#define HONE_TEXT_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

/* Checks a value against a schema: *ok is the answer, and when it is false, `why` gets one clause
 * naming the place ("/unit: not one of ..."). ERR_DATA when the schema is malformed, uses what is
 * not supported, or refers to itself without end. */
int schema_check(const struct json *schema, const struct json *value, bool *ok, struct buf *why,
                 struct err *e);
struct schema_how {
    const char *skip; /* keyword of the schema itself, not of those in it, that is not looked at */
    int64_t steps;    /* taken by the check */
};
/* Does the same, as *how says, and sets how->steps. */
int schema_check_how(const struct json *schema, const struct json *value, struct schema_how *how,
                     bool *ok, struct buf *why, struct err *e);

#endif
