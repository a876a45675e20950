// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_suite.c - a suite of cases and, after a NUL, an answer. The cases are parsed
 * (also as conversations whose last turn is the answer), and each judges the answer, as `hone eval
 * tools` does. An accepted case has a prompt and something to check. */
#define FUZZ_FILE
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "runtime/measure/suite.h"
#include "tests/fuzz/fuzz.h"

enum { MOST = 50 }; /* cases judged of one input */

static void judge(const struct suite_case *c, const char *text, size_t n) {
    struct answer a;
    struct verdict v;
    struct buf line = {0};
    struct err e;
    const struct answer_text t = {"", text, n, .cut = n % 2 != 0};
    if (answer_read(&a, toolfmt_at(0), c, &t, &e)) return;
    if (!a.content || !answer_same(&a, &a)) abort();
    answer_show(&a, &line);
    if (answer_judge(c, &a, &v, &e) == 0) {
        if (!v.pass && !v.why.len) abort();
        verdict_release(&v);
    }
    answer_release(&a);
    buf_release(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    const size_t n = nul ? (size_t)(nul - data) : size;
    const char *answer = nul ? (const char *)nul + 1 : "{\"name\": \"f\", \"arguments\": {}}";
    char path[64];
    struct suite s;
    struct err e;
    log_set_level(LOG_ERROR);
    if (suite_parse(&s, (const char *)data, n, "suite", &e) == 0) {
        for (int i = 0; i < s.n && i < MOST; i++) {
            const struct json *j = s.c[i].json;
            if (!json_get(j, "messages") && !json_get(j, "prompt") && !json_get(j, "text")) abort();
            if (!json_get(j, "expect") && !json_get(j, "checks")) abort();
            judge(&s.c[i], answer, nul ? size - n - 1 : strlen(answer));
        }
        (void)suite_calls(&s);
        suite_close(&s);
    }
    const int fd = fuzz_file(data, n, path);
    if (fd >= 0 && suite_open_answers(&s, path, &e) == 0) suite_close(&s);
    if (fd >= 0) close(fd);
    return 0;
}
