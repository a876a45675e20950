// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_json.c - JSON text, parsed by both readers. */
#include "base/json.h"
#include "tests/fuzz/fuzz.h"
#include "template/jinja_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct json *j;
    struct jdoc d;
    struct err e;
    if (json_parse(&j, (const char *)data, size, "t", &e) == 0) json_free(j);
    if (jdoc_parse(&d, (const char *)data, size, "t", &e) == 0) jdoc_release(&d);
    return 0;
}
