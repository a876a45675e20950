// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz_imatrix.c - importance matrices: reads one in either file format. */
#define FUZZ_FILE
#include "quantize/imat_file.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    struct imat m;
    struct err e;
    int fd = fuzz_file(data, size, path);
    imat_init(&m);
    if (fd >= 0) (void)imat_read(&m, path, &e);
    imat_release(&m);
    if (fd >= 0) close(fd);
    return 0;
}
