// SPDX-License-Identifier: MIT
/* text/schema.h - JSON Schema validator: draft 2020-12 except references to other documents,
 * dynamic references and unevaluated*. A list as `items` has its draft 7 meaning. `format` and
 * other annotations are not checked. Numbers are doubles, so integers beyond 2^53 are rounded. */
#ifndef HONE_TEXT_SCHEMA_H
#define HONE_TEXT_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

/* Validates a value: sets *ok and, if false, appends to `why` one clause that names the place
 * ("/unit: not one of ..."). ERR_DATA: the schema is malformed, uses unsupported features, or
 * refers to itself endlessly. */
int schema_check(const struct json *schema, const struct json *value, bool *ok, struct buf *why,
                 struct err *e);
struct schema_how {
    const char
        *skip; /* keyword to ignore, in the schema itself but not in its subschemas; NULL: none */
    int64_t steps; /* steps the check took */
};
/* Like schema_check, with options in *how; sets how->steps. */
int schema_check_how(const struct json *schema, const struct json *value, struct schema_how *how,
                     bool *ok, struct buf *why, struct err *e);
/* Returns ERR_DATA if schema_check could return it for some value. Reads every keyword, also those
 * of inner schemas and of "$defs", and compiles the regular expressions. */
int schema_sound(const struct json *schema, struct err *e);

#endif
