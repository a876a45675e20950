// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_hessian_file.c - second-moment files: opens one, looks up weights, and reads
 * every sum. */
#define FUZZ_FILE
#include "quantize/hessian_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return mut_gguf(data, size, max, seed);
}

static volatile int64_t touched; /* keeps the compiler from removing the reads */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    struct gram m;
    struct err e;
    int fd = fuzz_file(data, size, path);
    if (fd >= 0 && gram_read(&m, path, &e) == 0) {
        for (int64_t i = 0; i < m.n_weights; i++) {
            const struct gram_input *in = gram_find(&m, m.weight[i].name);
            for (int64_t k = 0; in && k < in->n_mat * in->n * in->block; k++)
                touched = touched + (in->sum[0][k] == in->sum[1][k]);
        }
        for (int i = 0; i < m.n_learned; i++)
            for (uint64_t k = 0; k < m.learned[i].n_bytes; k++)
                touched = touched + ((const uint8_t *)m.learned[i].data)[k];
        gram_release(&m);
    }
    if (fd >= 0) close(fd);
    return 0;
}
