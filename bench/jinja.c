// SPDX-License-Identifier: MIT
/* bench/jinja.c - measures how many times per second a compiled template renders a conversation,
 * given as parsed values and as JSON text. Built and run by bench/jinja.sh: jinja TEMPLATE
 * CASE.json SECONDS. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/io.h"
#include "template/chat_vars.h"

/* Returns a monotonic time in seconds. */
static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Renders a case into out; parses its JSON first if `parse` is set. */
static int render_once(const struct jinja *t, struct jdoc *d, const char *text, size_t len,
                       bool parse, struct buf *out, struct err *e) {
    struct jinja_err je;
    struct jdoc own;
    if (parse) TRY(jdoc_parse(&own, text, len, "case", e));
    struct chat_case k = chat_case_of(parse ? own.root : d->root, jv_missing());
    buf_reset(out);
    int rc = chat_case_render(t, &k, out, &je, e);
    if (parse) jdoc_release(&own);
    return rc;
}

int main(int argc, char **argv) {
    char *src, *text;
    size_t n_src, n_text;
    struct err e;
    struct jinja *t;
    struct jdoc d;
    struct buf out = {0};
    double rate[2] = {0};
    if (argc != 4) return 2;
    int rc = io_read_file(&src, &n_src, argv[1], 1 << 20, &e);
    if (!rc) rc = io_read_file(&text, &n_text, argv[2], 64 << 20, &e);
    if (!rc) rc = jinja_compile(&t, src, n_src, argv[1], NULL, &e);
    if (!rc) rc = jdoc_parse(&d, text, n_text, argv[2], &e);
    for (int parse = 0; parse < 2 && !rc; parse++) {
        double start = now_s(), limit = atof(argv[3]);
        int n = 0;
        do {
            for (int i = 0; i < 20 && !rc; i++, n++)
                rc = render_once(t, &d, text, n_text, parse, &out, &e);
        } while (!rc && now_s() - start < limit);
        rate[parse] = n / (now_s() - start);
    }
    if (rc) {
        fprintf(stderr, "%s\n", e.msg);
        return 1;
    }
    fwrite(out.data, 1, out.len, stdout);
    fprintf(stderr, "%.1f %.1f\n", rate[0], rate[1]);
    return 0;
}
