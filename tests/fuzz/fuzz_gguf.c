// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_gguf.c - GGUF files: opens one in strict and tolerant mode, and checks tokenizer
 * and data. */
#define FUZZ_FILE
#include "containers/gguf.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return mut_gguf(data, size, max, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int fd = fuzz_file(data, size, path);
    for (unsigned flags = 0; fd >= 0 && flags < 4; flags++) {
        struct gguf *g;
        struct err e;
        if (gguf_open(&g, path, flags, &e)) continue;
        (void)gguf_check_tokenizer(g, &e);
        for (int64_t i = 0; i < gguf_n_tensors(g); i++)
            (void)gguf_check_data(g, gguf_tensor_at(g, i), &e);
        gguf_close(g);
    }
    if (fd >= 0) close(fd);
    return 0;
}
