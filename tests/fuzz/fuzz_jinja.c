// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_jinja.c - a template, and behind a NUL its variables as JSON: compiled in both
 * modes, rendered with small limits. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "text/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char vars[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi <b> \xc3\xa9\"},{\"role\":"
        "\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":"
        "\"f\",\"arguments\":{\"x\":[1,2.0,true,null,\"s\"]}}}]}],\"tools\":[{\"type\":"
        "\"function\"}],\"n\":7,\"s\":\"text\",\"add_generation_prompt\":true}";
    const struct jinja_limits lim = {
        .max_steps = 20000, .max_output = 1 << 16, .max_depth = 60, .max_range = 1000};
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t n = nul ? (size_t)(nul - data) : size;
    const char *json = nul ? (const char *)nul + 1 : vars;
    size_t n_json = nul ? size - n - 1 : sizeof vars - 1;
    for (int mode = JINJA_HF; mode <= JINJA_LENIENT; mode++) {
        struct jinja *t;
        struct jinja_err je;
        struct err e;
        struct buf out = {0};
        if (jinja_compile_mode(&t, (const char *)data, n, "t", (enum jinja_mode)mode, &je, &e))
            continue;
        (void)jinja_render_text(t, json, n_json, 1772721000, &lim, &out, &je, &e);
        buf_release(&out);
        jinja_free(t);
    }
    return 0;
}
