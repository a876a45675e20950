// SPDX-License-Identifier: MIT
/* tests/fuzz/driver.c - runs a fuzz target over files without libFuzzer: those of the folder
 * tests/fuzz/corpus/<target>, or the files and folders given. Linked to each target by `make test`,
 * under the same sanitizers as the other tests. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io.h"
#include "tests/fuzz/fuzz.h"

static int n_run, n_bad;

static void one(const char *path) {
    struct err e;
    char *text;
    size_t len;
    if (io_read_file(&text, &len, path, (uint64_t)64 << 20, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        n_bad++;
        return;
    }
    uint8_t *exact = malloc(len ? len : 1); /* no NUL behind it: sanitizers see one byte too far */
    if (!exact) exit(1);
    memcpy(exact, text, len);
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    free(text);
    n_run++;
}

static void folder(const char *path) {
    DIR *d = opendir(path);
    for (struct dirent *f; d && (f = readdir(d));) {
        if (f->d_name[0] == '.') continue;
        char *name = io_join(path, f->d_name);
        one(name);
        free(name);
    }
    if (d) closedir(d);
}

int main(int argc, char **argv) {
    char corpus[200];
    const char *name = strstr(io_base(argv[0]), "fuzz_");
    snprintf(corpus, sizeof corpus, "tests/fuzz/corpus/%.100s", name ? name + 5 : "");
    if (argc < 2) folder(corpus);
    for (int i = 1; i < argc; i++) {
        if (io_is_dir(argv[i]))
            folder(argv[i]);
        else
            one(argv[i]);
    }
    if (!n_run && !n_bad) {
        printf("SKIP: %s is empty\n", corpus);
        return 77;
    }
    printf("%d passed, %d failed\n", n_run, n_bad);
    return n_bad ? 1 : 0;
}
