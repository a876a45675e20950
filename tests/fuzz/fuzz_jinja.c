// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_jinja.c - templates: the input is a template, a NUL, and variables as JSON. The
 * template is compiled in both modes and rendered with small limits. Origin tracking must not
 * change the rendering, and spans must be in order. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "template/chat_span.h"

struct vars {
    const char *json;
    size_t n;
};

static struct jval named_vars(struct jctx *c, void *ctx) {
    const struct vars *v = ctx;
    return chat_named(c, jjson_parse(c, v->json, v->n, "variables"), jv_str(""), "variable");
}

static void follow(const struct jinja *t, struct vars *v, const struct jinja_limits *lim,
                   const struct buf *plain) {
    struct buf out = {0};
    struct jinja_spans s;
    struct jinja_err je;
    struct err e;
    if (jinja_render_spans(t, named_vars, v, 1772721000, lim, &out, &s, &je, &e) == 0) {
        size_t at = 0;
        int n;
        if (out.len != plain->len || (out.len && memcmp(out.data, plain->data, out.len) != 0))
            abort();
        for (int i = 0; i < s.n; i++) {
            if (s.v[i].start < at || s.v[i].end <= s.v[i].start || s.v[i].origin >= s.n_origin)
                abort();
            at = s.v[i].end;
        }
        if (at > out.len) abort();
        free(chat_find_forged(&out, &s, &n));
        jinja_spans_free(&s);
    } else if (je.kind != JF_LIMIT) { /* tracking origins takes steps and memory */
        abort();
    }
    buf_release(&out);
}

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
        struct vars v = {json, n_json};
        if (jinja_render_text(t, json, n_json, 1772721000, &lim, &out, &je, &e) == 0)
            follow(t, &v, &lim, &out);
        buf_release(&out);
        jinja_free(t);
    }
    return 0;
}
