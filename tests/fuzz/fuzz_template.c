// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_template.c - template files, and GGUF files with a template, as hone template
 * show, lint, fix and diff process them. A text with a NUL must be rejected, an accepted text must
 * have the reported length, and all probes together must stay below the step limit. */
#define FUZZ_FILE
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "containers/gguf.h"
#include "base/limits.h"
#include "template/chat_src.h"
#include "template/fix_diff.h"
#include "template/lint.h"
#include "template/repair.h"
#include "tests/fuzz/fuzz.h"

enum { STEPS = 200000 };

static void use(const struct chat_src *s) {
    struct lint_report r;
    struct buf diff = {0};
    struct err e;
    struct ctx_cost c = {.most = STEPS}, *before = ctx_cost_enter(&c);
    if (strlen(s->text) != s->len) abort();
    if (lint_run(&r, s->text, s->len, s->label, JINJA_HF, &e) == 0) lint_report_free(&r);
    ctx_cost_enter(before);
    if (c.spent > 2 * (uint64_t)STEPS) abort();
    struct repair fixed;
    c = (struct ctx_cost){.most = 4 * STEPS};
    ctx_cost_enter(&c);
    if (repair_run(&fixed, s->text, s->len, s->label, NULL, 0, &e) == 0) {
        const char *text = fixed.text.data ? fixed.text.data : "";
        (void)text_diff(s->text, s->len, "a", text, fixed.text.len, "b", &diff);
        if (!fixed.n && fixed.text.len != s->len) abort();
    }
    ctx_cost_enter(before);
    repair_free(&fixed);
    buf_release(&diff);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    struct chat_src s;
    struct gguf *g = NULL;
    struct err e;
    const char *text;
    int fd = fuzz_file(data, size, path);
    if (fd < 0) return 0;
    if (chat_src_open(&s, path, NULL, &e) == 0) {
        use(&s);
        chat_src_close(&s);
    }
    if (gguf_open(&g, path, GGUF_TOLERANT | GGUF_ONE_FILE, &e) == 0) {
        const int rc = gguf_chat_template(g, &text, &e);
        if (rc && gguf_check_tokenizer(g, &e) == 0) abort(); /* verify reports it, too */
        gguf_close(g);
    }
    close(fd);
    return 0;
}
