// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_render.c - the cost of rendering. The input is a template in four parts between
 * newlines: a head, a piece that is repeated ('#' in it is its number), a tail, and the variable
 * `x`, repeated to 64 KiB. The template is compiled and rendered with a step limit. CPU time must
 * stay proportional to the steps; otherwise some work is not counted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ctx.h"
#include "template/jinja.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/parts.h"

enum { TIMES = 300, PART = 300, TEXT = 1 << 16, STEPS = 200000 };
/* CPU time allowed per step, and in any case; sanitizers make everything 20x slower. */
static const double step_s = 20e-6, free_s = 2;

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void vars_of(struct buf *b, struct part x) {
    buf_str(b, "{\"x\": \"");
    for (size_t i = 0; x.n && i < TEXT; i++) {
        const unsigned char c = (unsigned char)x.s[i % x.n];
        if (c < 32 || c == '"' || c == '\\' || c > 126)
            buf_fmt(b, "\\u%04x", c);
        else
            buf_chr(b, (char)c);
    }
    buf_str(b, "\", \"l\": [3, 1, 2], \"d\": {\"a\": 1}}");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *s = (const char *)data, *end = s + size;
    const struct part head = next_part(&s, end, '\n', PART), piece = next_part(&s, end, '\n', PART),
                      tail = next_part(&s, end, '\n', PART), x = next_part(&s, end, '\n', PART);
    const struct jinja_limits lim = {.max_steps = STEPS, .max_output = 1 << 20, .max_range = 5000};
    struct buf b = {0}, vars = {0}, out = {0};
    struct ctx_cost cost = {.most = STEPS};
    struct jinja_err je;
    struct jinja *t;
    struct err e;
    put_part(&b, head, 0);
    for (int i = 0; i < TIMES && piece.n; i++) put_part(&b, piece, i);
    put_part(&b, tail, TIMES);
    vars_of(&vars, x);
    struct ctx_cost *before = ctx_cost_enter(&cost);
    const double begin = now_s();
    if (jinja_compile(&t, b.data ? b.data : "", b.len, "t", &je, &e) == 0) {
        (void)jinja_render_text(t, vars.data, vars.len, 0, &lim, &out, &je, &e);
        jinja_free(t);
    }
    const double took = now_s() - begin;
    ctx_cost_enter(before);
    if (took > free_s + step_s * (double)cost.spent) {
        fprintf(stderr, "%.1f s for %llu steps\n", took, (unsigned long long)cost.spent);
        abort();
    }
    buf_release(&b);
    buf_release(&vars);
    buf_release(&out);
    return 0;
}
