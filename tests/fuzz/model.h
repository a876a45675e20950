// SPDX-License-Identifier: MIT
/* tests/fuzz/model.h - a model of tests/golden for targets that need one, and a folder for files.
 * Targets run in the root of the repository. */
#ifndef HONE_TESTS_FUZZ_MODEL_H
#define HONE_TESTS_FUZZ_MODEL_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "convert/convert.h"
#include "base/mem.h"
#include "runtime/engine/session.h"

static inline void fuzz_need(int rc, const struct err *e) {
    if (!rc) return;
    fprintf(stderr, "%s\n", e->msg);
    exit(1);
}

static char *fuzz_made[8];
static int fuzz_n_made;

static int fuzz_remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
    (void)st, (void)type, (void)at;
    return remove(path);
}
static void fuzz_remove(void) {
    while (fuzz_n_made) (void)nftw(fuzz_made[--fuzz_n_made], fuzz_remove_one, 8, FTW_DEPTH);
}

/* Creates a folder, in memory if possible, which is removed at exit. Returns its path, which the
 * caller frees. */
static inline char *fuzz_folder(void) {
    char *path = xasprintf("%s/hone-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(path)) {
        perror(path);
        exit(1);
    }
    if (!fuzz_n_made) atexit(fuzz_remove);
    if (fuzz_n_made < 8) fuzz_made[fuzz_n_made++] = xstrdup(path);
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
