// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_safetensors.c - safetensors files: opens one and looks up its tensors. */
#define FUZZ_FILE
#include "containers/safetensors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    return mut_safetensors(data, size, max, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    struct st *s;
    struct err e;
    int fd = fuzz_file(data, size, path);
    if (fd >= 0 && st_open(&s, path, &e) == 0) {
        for (int64_t i = 0; i < st_n_tensors(s); i++) {
            const struct st_tensor *t = st_tensor_at(s, i);
            float x[4];
            if (t && t->n_elems > 0) (void)st_to_f32(t, 0, t->n_elems < 4 ? t->n_elems : 4, x, &e);
        }
        st_close(s);
    }
    if (fd >= 0) close(fd);
    return 0;
}
