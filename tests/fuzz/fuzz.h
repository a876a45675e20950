// SPDX-License-Identifier: MIT
/* tests/fuzz/fuzz.h - the interface of a fuzz target, and inputs as files. A target runs all code
 * that untrusted bytes can reach, and returns. A clean error is fine; whatever a sanitizer or a
 * limit catches is a finding. */
#ifndef HONE_TESTS_FUZZ_H
#define HONE_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Optional: changes data, of at most max bytes; returns its size. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
/* Provided by libFuzzer or the driver: changes arbitrary bytes. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

#ifdef FUZZ_FILE
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* Writes the bytes to a file in memory. Returns its descriptor, or -1. */
static int fuzz_file(const uint8_t *data, size_t size, char path[64]) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, data, size) != (ssize_t)size) {
        close(fd);
        return -1;
    }
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}
#endif

#endif
