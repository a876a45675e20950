// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_tower.c - projector files: opens one and computes the embeddings of a small
 * image. */
#define FUZZ_FILE
#include <stdlib.h>

#include "base/log.h"
#include "runtime/vision/tower.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return mut_gguf(data, size, max, seed);
}

static void encode(const struct vision_tower *v) {
    const int side = vision_params(v)->patch * vision_params(v)->merge;
    struct vision_rows rows;
    struct err e;
    if (side > 64) return;
    float *image = calloc((size_t)(3 * 2 * side * side), sizeof *image);
    if (image && vision_encode(v, image, 2 * side, side, &rows, &e) == 0) {
        if (rows.n != 2 || rows.width != vision_width(v)) abort();
        vision_rows_release(&rows);
    }
    free(image);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    struct vision_tower *v;
    struct err e;
    int fd = fuzz_file(data, size, path);
    log_set_level(LOG_ERROR);
    if (fd >= 0 && vision_open(&v, path, NULL, KERN_REF, &e) == 0) {
        encode(v);
        vision_close(v);
    }
    if (fd >= 0) close(fd);
    return 0;
}
