// SPDX-License-Identifier: MIT
/* tests/fuzz/driver.c - runs a fuzz target on files, without libFuzzer: those in
 * tests/fuzz/corpus/<target>, or the files and folders given as arguments. Linked to each target by
 * `make test`, under the same sanitizers as the other tests. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/rng.h"
#include "tests/fuzz/fuzz.h"

enum { MUTATIONS = 40, MUTANT_MAX = 1 << 17 };
static int n_run, n_bad;
static struct rng rng = {1};

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max) {
    size_t n = size;
    if (rng_u64(&rng) % 4 == 0 && size < max) data[n++] = (uint8_t)rng_u64(&rng);
    if (rng_u64(&rng) % 4 == 0 && n) n--;
    if (n) data[rng_u64(&rng) % n] ^= (uint8_t)(1u << rng_u64(&rng) % 8);
    return n;
}

/* For targets that know their format: makes a few mutations of every file, the same ones in every
 * run. */
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max,
                                                     unsigned seed);
static void mutants(const uint8_t *data, size_t len) {
    static uint8_t work[MUTANT_MAX];
    if (!LLVMFuzzerCustomMutator || len > MUTANT_MAX / 2) return;
    for (unsigned seed = 1; seed <= MUTATIONS; seed++) {
        size_t n = len;
        memcpy(work, data, len);
        for (unsigned k = 0; k <= seed % 4; k++)
            n = LLVMFuzzerCustomMutator(work, n, MUTANT_MAX, 4 * seed + k);
        uint8_t *exact = malloc(n ? n : 1);
        if (!exact) exit(1);
        memcpy(exact, work, n);
        LLVMFuzzerTestOneInput(exact, n);
        free(exact);
    }
}

static void one(const char *path) {
    struct err e;
    char *text;
    size_t len;
    if (io_read_file(&text, &len, path, (uint64_t)64 << 20, &e)) {
        fprintf(stderr, "%s\n", e.msg);
        n_bad++;
        return;
    }
    uint8_t *exact = malloc(len ? len : 1); /* without a final NUL, so that sanitizers catch reads
                                             * past the end */
    if (!exact) exit(1);
    memcpy(exact, text, len);
    LLVMFuzzerTestOneInput(exact, len);
    mutants(exact, len);
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
