// SPDX-License-Identifier: MIT
/* base/os_bare.c - stubs of base/os.h for macOS, the BSDs and Windows: calls that only Linux has.
 */
#include "base/os.h"

#if !defined(__linux__)
#include <errno.h>

/* Sets errno to ENOSYS and returns -1. */
static int fail_unsupported(void) {
    errno = ENOSYS;
    return -1;
}
int os_insert_range(int fd, uint64_t at, uint64_t n) {
    (void)fd, (void)at, (void)n;
    return fail_unsupported();
}
int os_remove_range(int fd, uint64_t at, uint64_t n) {
    (void)fd, (void)at, (void)n;
    return fail_unsupported();
}
int64_t os_next_hole(int fd, uint64_t at) {
    (void)fd, (void)at;
    return fail_unsupported();
}
int64_t os_next_data(int fd, uint64_t at) {
    (void)fd, (void)at;
    return fail_unsupported();
}
bool os_lease(int fd) {
    (void)fd;
    return false;
}
void os_end_lease(int fd) {
    (void)fd;
}
int os_cpus(uint64_t cpus[OS_CPUS / 64]) {
    (void)cpus;
    return 0;
}
void os_stay(pthread_t thread, const uint64_t cpus[OS_CPUS / 64]) {
    (void)thread, (void)cpus;
}
int os_interleave(void *p, uint64_t n_bytes, const unsigned long *mask, unsigned long n) {
    (void)p, (void)n_bytes, (void)mask, (void)n;
    return ENOSYS;
}
void os_give_up_rights(bool hide) {
    (void)hide;
}
#endif
