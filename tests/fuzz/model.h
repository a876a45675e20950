// SPDX-License-Identifier: MIT
/* tests/fuzz/model.h - a model of tests/golden for targets that need one, and a folder for files.
 * Targets run in the root of the repository. */
#ifndef HONE_TESTS_FUZZ_MODEL_H
#define HONE_TESTS_FUZZ_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "convert/convert.h"
#include "core/mem.h"
#include "runtime/engine/session.h"

static inline void fuzz_need(int rc, const struct err *e) {
    if (!rc) return;
    fprintf(stderr, "%s\n", e->msg);
    exit(1);
}

/* Makes a folder, in memory where that is possible, and returns its path for the caller to free. */
static inline char *fuzz_folder(void) {
    char *path = xasprintf("%s/hone-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(path)) {
        perror(path);
        exit(1);
    }
    return path;
}

static inline struct model *fuzz_model(const char *src) {
    struct model *m = NULL;
    struct err e = {0};
    char *folder = fuzz_folder(), *file = xasprintf("%s/m.gguf", folder);
    struct convert_opts o = {.src = src, .out = file, .type = "q8_0"};
    struct convert_report r;
    fuzz_need(convert_run(&o, &r, &e), &e);
    fuzz_need(model_open(&m, file, &e), &e);
    unlink(file); /* it stays mapped */
    rmdir(folder);
    free(file);
    free(folder);
    return m;
}

#endif
