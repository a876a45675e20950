// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_kld.c - base-logits files, in llama.cpp's or the compact format: opens one and
 * reads every row. */
#define FUZZ_FILE
#include <stdlib.h>

#include "runtime/measure/kld_file.h"
#include "runtime/measure/kld_file_top.h"
#include "tests/fuzz/fuzz.h"

static void field_form(const char *path) {
    struct kld_r *r;
    struct err e;
    if (kld_r_open(&r, path, &e)) return;
    float *row = calloc((size_t)kld_r_vocab(r), sizeof *row);
    for (int64_t i = 0; row && kld_r_check_row(r, i, &e) == 0; i++) kld_r_row(r, i, row);
    free(row);
    kld_r_close(r);
}

static void compact_form(const char *path) {
    struct kld_top_r *r;
    struct kld_top_row row;
    struct err e;
    if (kld_top_r_open(&r, path, &e)) return;
    const struct kld_top_shape *sh = kld_top_r_shape(r);
    int64_t n = (int64_t)sh->n_chunk * (sh->n_ctx - 1 - sh->from);
    for (int64_t i = 0; i < n; i++) (void)kld_top_r_row(r, i, &row, &e);
    kld_top_r_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int fd = fuzz_file(data, size, path);
    if (fd >= 0) {
        field_form(path);
        compact_form(path);
        close(fd);
    }
    return 0;
}
