// SPDX-License-Identifier: MIT
/* work/blas_choice.c - timing of OpenBLAS against our kernels, and the file with the result. */
#include "work/blas_choice.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "work/isa_choice.h"

static const char file[] = "blas";

/* Parses a list of uses, e.g. "moments,back". Unknown names are ignored. */
static unsigned parse(const char *text) {
    unsigned uses = 0;
    while (*text) {
        const size_t n = strcspn(text, ",");
        for (int u = 0; u < BLAS_USES; u++)
            if (strlen(blas_uses[u].name) == n && memcmp(blas_uses[u].name, text, n) == 0)
                uses |= 1u << u;
        text += n + (text[n] == ',');
    }
    return uses;
}

unsigned blas_choice(const struct work *w) {
    char *text = w->isa_given ? NULL : choice_read(w->choices, file);
    unsigned uses = 0;
    if (text) {
        char *build = text + strcspn(text, "\n");
        if (*build) *build++ = 0;
        build[strcspn(build, "\n")] = 0;
        uses = parse(text);
        const char *why = uses ? blas_open() : NULL;
        if (uses && !why && strcmp(build, blas_config()) != 0)
            why = "another build is installed; `hone doctor` tries it";
        if (uses && !why && pool_size(w->pool) > blas_most_threads())
            why = "it was built for fewer threads";
        if (why) {
            log_warn("OpenBLAS is not used: %s", why);
            uses = 0;
        }
    }
    free(text);
    return uses;
}

/* Saves the uses, a bit set, along with the BLAS build they were measured with. */
static int keep_uses(const char *dir, unsigned uses, struct err *e) {
    struct buf b = {0};
    for (int u = 0; u < BLAS_USES; u++)
        if (uses >> u & 1) buf_fmt(&b, "%s%s", b.len ? "," : "", blas_uses[u].name);
    buf_fmt(&b, "\n%s\n", blas_config());
    const int rc = choice_write(dir, file, b.data, e);
    buf_release(&b);
    return rc;
}

void blas_choice_measure(const struct work *w, enum kern_isa isa, struct blas_tried *out) {
    struct err e;
    *out = (struct blas_tried){.why_not = blas_open()};
    if (!out->why_not) {
        struct kern *k = xcalloc(1, sizeof *k);
        kern_init(k, isa);
        blas_trial(k, out->ours, out->theirs);
        out->uses = blas_faster(out->ours, out->theirs);
        free(k);
    }
    if (keep_uses(w->choices, out->uses, &e)) log_info("the choice was not saved: %s", e.msg);
}
